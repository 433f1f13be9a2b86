"""What the ledger supports: where time and money go, and which change would help, each with its numbers.

Nothing is said where the data do not carry it: every advice has a least number of observations and an interval that
excludes "no effect". What was served where was the policy's choice, no experiment: two backends of one route may have
got unlike requests, which is said with the comparison.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from gateway.accounts import advice_queries as queries
from gateway.accounts.intervals import Z95, Interval
from gateway.accounts.report import make_report
from gateway.accounts.report_line import Line
from gateway.accounts.selection import Selection
from gateway.price import PICO_USD_PER_USD
from gateway.stores.tables import LedgerTables

LEAST_REQUESTS = 100
LEAST_TASKS = 30
LEAST_DAYS = 7
NOTABLE_SHARE = 0.1
"""A part of the time or the money that is worth a word."""

MOSTLY = 0.8
"""So many prompts that follow another must be longer than it and its answer, to be taken for its continuation."""

HALF = 0.5
MONTH_DAYS = 30


class Part(Struct, frozen=True, kw_only=True):
    """A part of the time of served streams, in seconds a request and as a share; ``interval`` where it is estimated."""

    backend: str
    part: str
    seconds: float
    share: float
    n: int
    interval: Interval | None = None


class Advice(Struct, frozen=True, kw_only=True):
    """One change, why, and the evidence: ``value`` with its 95 % interval, of ``n`` observations."""

    change: str
    subject: str
    why: str
    value: float
    unit: str
    interval: Interval | None
    n: int


class Advised(Struct, frozen=True, kw_only=True):
    """Where the time went, where the money went (a report by backend), and what the ledger supports."""

    object: str = "advice"
    time: tuple[Part, ...]
    money: tuple[Line, ...]
    advice: tuple[Advice, ...]


class Slope(NamedTuple):
    """A straight line: ``y = at_zero + slope x``, with the standard error of the slope."""

    at_zero: float
    slope: float
    error: float

    @property
    def interval(self) -> Interval:
        """Of the slope."""
        return self.slope - Z95 * self.error, self.slope + Z95 * self.error


async def advise(tables: LedgerTables, selection: Selection, *, now_unix_s: float) -> Advised:
    """Reads the ledger.

    Raises:
        ConfigurationError: there is no ledger.
        LedgerLost: it cannot be read.
    """
    values = {**selection.values(), "since": selection.since_unix_s or 0.0}
    times = await tables.rows(queries.TIMES, **values)
    ((*prefixes,),) = await tables.rows(queries.PREFIXES, **values)
    ((*gaps,),) = await tables.rows(queries.GAPS, **values)
    days = await tables.rows(queries.DAYS, **values)
    by_backend = await make_report(tables, selection, ("backend",), now_unix_s=now_unix_s)
    by_both = await make_report(tables, selection, ("route", "backend"), now_unix_s=now_unix_s)
    advice = (
        *(one for row in times if row[1] >= LEAST_REQUESTS for one in _of_times(row)),
        *_of_prefixes(prefixes),
        *_of_gaps(gaps),
        *(one for line in by_backend.lines for one in _of_waste(line)),
        *_of_backends(by_both.lines),
        *_of_days(days),
    )
    time = tuple(part for row in times if row[1] for part in _parts(row))
    return Advised(time=time, money=by_backend.lines, advice=advice)


def line_through(n: int, x: float, xx: float, xy: float, y: float, yy: float) -> Slope | None:
    """The least-squares line through ``n`` points of these sums; ``None`` where ``x`` does not vary."""
    spread = xx - x * x / n if n else 0.0
    if n < 3 or spread <= 1e-9 * max(xx, 1.0):  # noqa: PLR2004  # two points have no error
        return None
    slope = (xy - x * y / n) / spread
    at_zero = (y - slope * x) / n
    rest = max(yy - at_zero * y - slope * xy, 0.0)
    return Slope(at_zero, slope, math.sqrt(rest / (n - 2) / spread))


def _parts(row: Sequence[Any]) -> Iterator[Part]:
    """Queue, then what reading takes and the network before it, where they can be told apart, decoding, and the end."""
    backend, n, wait_s, _, first_s, decode_s, after_s, total_s, x, xx, xy, yy = row
    fit = line_through(n, x, xx, xy, first_s, yy)
    parts: list[tuple[str, float, Interval | None]] = [("queue", wait_s, None)]
    if n >= LEAST_REQUESTS and fit is not None and fit.interval[0] > 0 and fit.at_zero >= 0:
        each = x / n
        parts += [
            ("prefill", fit.slope * x, (fit.interval[0] * each, fit.interval[1] * each)),
            ("network", fit.at_zero * n, None),
        ]
    else:
        parts.append(("first token", first_s, None))
    parts += [("decode", decode_s, None), ("end", after_s, None)]
    for name, seconds, interval in parts:
        share = seconds / total_s if total_s > 0 else 0.0
        yield Part(backend=backend, part=name, seconds=seconds / n, share=share, n=n, interval=interval)


def _of_times(row: Sequence[Any]) -> Iterator[Advice]:
    backend, n, wait_s, wait_ss, first_s, _, _, total_s, x, xx, xy, yy = row
    mean_wait_s = wait_s / n
    error = math.sqrt(max(wait_ss / n - mean_wait_s**2, 0.0) / n)
    if total_s > 0 and (mean_wait_s - Z95 * error) * n / total_s > NOTABLE_SHARE:
        yield Advice(
            change="more places, or a backend to spill to",
            subject=backend,
            why=f"requests wait in the gateway for {wait_s / total_s:.0%} of their time before {backend} gets them",
            value=mean_wait_s,
            unit="seconds a request",
            interval=(mean_wait_s - Z95 * error, mean_wait_s + Z95 * error),
            n=n,
        )
    fit = line_through(n, x, xx, xy, first_s, yy)
    if fit is not None and fit.interval[0] > 0 and total_s > 0 and fit.interval[0] * x / total_s > NOTABLE_SHARE:
        yield Advice(
            change="shorter prompts",
            subject=backend,
            why=f"reading prompts is {fit.slope * x / total_s:.0%} of the time of {backend}; "
            "a thousand tokens fewer that no cache has save",
            value=fit.slope,
            unit="seconds a request",
            interval=fit.interval,
            n=n,
        )


def _of_prefixes(row: Sequence[Any]) -> Iterator[Advice]:
    calls, prompt_tokens, cached_tokens, sent_before, going_on, growing = row
    if not calls or going_on < LEAST_TASKS or not prompt_tokens or growing < MOSTLY * going_on:
        return
    missed = (sent_before - cached_tokens) / prompt_tokens
    if missed > NOTABLE_SHARE:
        yield Advice(
            change="prefix reuse",
            subject="tasks of several requests",
            why=f"{sent_before / prompt_tokens:.0%} of their prompt tokens may have been sent before in the same task, "
            f"and {cached_tokens / prompt_tokens:.0%} came from a cache: keep the beginning of prompts as it is, keep "
            "a task on its backend (`leaving`, `prefill`), turn on the provider's prompt cache; at most",
            value=missed,
            unit="of prompt tokens",
            interval=None,
            n=going_on,
        )


def _of_gaps(row: Sequence[Any]) -> Iterator[Advice]:
    tasks, elapsed_s, inference_s = row
    if tasks < LEAST_TASKS or not elapsed_s:
        return
    share = 1 - inference_s / elapsed_s
    if share > HALF:
        yield Advice(
            change="the application itself",
            subject="tasks of several requests",
            why=f"for {share:.0%} of a task's time no model is at work: tools, retrieval and waiting between requests",
            value=(elapsed_s - inference_s) / tasks,
            unit="seconds a task",
            interval=None,
            n=tasks,
        )


def _of_waste(line: Line) -> Iterator[Advice]:
    paid = float(line.priced_cost_usd)
    for kind, usd in line.wasted.items():
        if line.attempts >= LEAST_REQUESTS and paid > 0 and float(usd) / paid > NOTABLE_SHARE / 2:
            yield Advice(
                change="less waste",
                subject=line.by["backend"],
                why=f"{float(usd) / paid:.0%} of what {line.by['backend']} cost was for answers that were {kind}",
                value=float(usd),
                unit="US dollars",
                interval=None,
                n=line.attempts,
            )


def _of_backends(lines: Sequence[Line]) -> Iterator[Advice]:
    """Of two backends of a route, the one whose successes are cheaper, where the intervals do not meet."""
    by_route: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        judged = line.tasks.succeeded + line.tasks.failed
        if judged >= LEAST_TASKS and line.tasks.cost_per_success_interval is not None:
            by_route[line.by["route"]].append(line)
    for route, known in by_route.items():
        best, *others = sorted(known, key=lambda line: line.tasks.cost_per_success_usd or math.inf)
        best_interval, best_usd = best.tasks.cost_per_success_interval, best.tasks.cost_per_success_usd
        for line in others:
            interval, usd = line.tasks.cost_per_success_interval, line.tasks.cost_per_success_usd
            if interval and best_interval and usd and best_usd and interval[0] > best_interval[1]:
                yield Advice(
                    change="another backend",
                    subject=f"route {route}: {best.by['backend']} in place of {line.by['backend']}",
                    why=f"a success costs ${best_usd:.6f} there ({best.tasks.success_rate:.1%} of tasks), ${usd:.6f} "
                    f"({line.tasks.success_rate:.1%}) here, where the policy chose who got which; less by",
                    value=usd - best_usd,
                    unit="US dollars a success",
                    interval=(interval[0] - best_interval[1], interval[1] - best_interval[0]),
                    n=line.tasks.succeeded + line.tasks.failed + best.tasks.succeeded + best.tasks.failed,
                )


def _of_days(rows: Sequence[Any]) -> Iterator[Advice]:
    """What an own machine may cost: the money of whole days, the first and the last left out."""
    by_backend: dict[str, dict[int, float]] = defaultdict(dict)
    for backend, day, pico_usd, _ in rows:
        by_backend[backend][day] = pico_usd / PICO_USD_PER_USD
    paid = sum(sum(spent.values()) for spent in by_backend.values())
    for backend, spent in by_backend.items():
        whole = [spent.get(day, 0.0) for day in range(min(spent) + 1, max(spent))]
        if len(whole) < LEAST_DAYS:
            continue
        mean, error = statistics.fmean(whole), statistics.stdev(whole) / math.sqrt(len(whole))
        low, high = (mean - Z95 * error) * MONTH_DAYS, (mean + Z95 * error) * MONTH_DAYS
        if low > 0 and sum(whole) > NOTABLE_SHARE * paid:
            yield Advice(
                change="own capacity",
                subject=backend,
                why=f"a machine of your own that serves this and costs less than what {backend} gets in 30 days pays",
                value=mean * MONTH_DAYS,
                unit="US dollars in 30 days",
                interval=(low, high),
                n=len(whole),
            )
