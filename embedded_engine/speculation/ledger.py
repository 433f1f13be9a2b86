"""Counts what was drafted and what came of it, by source."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

__all__ = ["BINS", "Ledger", "SourceReport"]

BINS = 10


class SourceReport(msgspec.Struct, frozen=True, kw_only=True):
    """One source's drafts.

    Attributes:
        drafts: Steps in which some of the tokens were its.
        drafted: Tokens that were verified together with others, or thrown away behind a wrong one.
        accepted: Those that were emitted.
        judged: By tenth of confidence, drafted tokens of which the model's own probability is known: those up to the
            first wrong one of a draft.
        confidence: The sum of the confidences, by the same.
        probability: The sum of the probabilities, by the same.
    """

    drafts: int
    drafted: int
    accepted: int
    judged: tuple[int, ...]
    confidence: tuple[float, ...]
    probability: tuple[float, ...]

    @property
    def calibration_error(self) -> float:
        """The expected calibration error: the mean gap between confidence and probability, over the tenths."""
        gaps = [abs(c - p) for c, p in zip(self.confidence, self.probability, strict=True)]
        return sum(gaps) / max(1, sum(self.judged))


@dataclass(slots=True)
class _Account:
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    judged: list[int] = field(default_factory=lambda: [0] * BINS)
    confidence: list[float] = field(default_factory=lambda: [0.0] * BINS)
    probability: list[float] = field(default_factory=lambda: [0.0] * BINS)


class Ledger:
    """All sources' counts since the start."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}

    def drafted(self, sources: Sequence[str], *, accepted: int) -> None:
        """A step's drafted tokens came from these sources, token by token, and the first `accepted` were right."""
        for place, source in enumerate(sources):
            account = self._accounts.setdefault(source, _Account())
            account.drafts += source not in sources[:place]
            account.drafted += 1
            account.accepted += place < accepted

    def judged(self, source: str, *, confidence: float, probability: float) -> None:
        """A drafted token's probability turned out."""
        account = self._accounts.setdefault(source, _Account())
        tenth = min(int(confidence * BINS), BINS - 1)
        account.judged[tenth] += 1
        account.confidence[tenth] += confidence
        account.probability[tenth] += probability

    def report(self) -> dict[str, SourceReport]:
        """By source."""
        return {
            source: SourceReport(
                drafts=account.drafts,
                drafted=account.drafted,
                accepted=account.accepted,
                judged=tuple(account.judged),
                confidence=tuple(account.confidence),
                probability=tuple(account.probability),
            )
            for source, account in self._accounts.items()
        }
