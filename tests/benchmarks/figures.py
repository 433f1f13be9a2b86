"""Many measurements as one figure with its spread, and figures as a table."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A median and the smallest and largest measurement that it comes from."""

    median: float
    low: float
    high: float
    rounds: int

    def __str__(self) -> str:
        if self.rounds == 1:
            return short(self.median)
        return f"{short(self.median)} ({short(self.low)}-{short(self.high)})"


def figure(measured: Iterable[float]) -> Figure:
    """The figure of at least one measurement."""
    values = list(measured)
    return Figure(median=statistics.median(values), low=min(values), high=max(values), rounds=len(values))


def paired(measured: Sequence[float], reference: Sequence[float]) -> tuple[Figure | None, Figure | None]:
    """Differences and ratios of measurements that were taken by turns, round by round.

    A round whose reference is zero, which is below what can be measured, has no ratio.
    """
    pairs = list(zip(measured, reference, strict=True))
    ratios = [ours / theirs for ours, theirs in pairs if theirs > 0]
    differences = [ours - theirs for ours, theirs in pairs]
    return figure(differences) if differences else None, figure(ratios) if ratios else None


def short(number: float) -> str:
    """Three figures that count, and no more digits than that."""
    size = abs(number)
    digits = next((digits for limit, digits in ((100, 0), (10, 1), (1, 2)) if size >= limit), 3)
    return f"{number:,.{digits}f}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; every column but the first holds numbers."""
    lines = [header, ["---", *("---:" for _ in header[1:])], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
