"""A line of a report as people and programs get it: the figures of a group, and how sure they are."""

from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import NamedTuple

from msgspec import Struct

from gateway.accounts.intervals import Interval, ratio, wilson
from gateway.accounts.money import usd
from gateway.accounts.report_group import WASTES, Group, Spending, TaskKey
from gateway.price import PICO_USD_PER_USD
from gateway.types import Status

Outcomes = Mapping[TaskKey, tuple[bool | None, int]]
"""What clients said of their tasks: whether it succeeded, and the pico-dollars of tools and recovery."""

_NOBODY_SAID: tuple[bool | None, int] = (None, 0)

SHARES = (0.5, 0.9, 0.99)


class Quantiles(Struct, frozen=True):
    """A time's quantiles in seconds, at most 1.5 % off, and of how many it is."""

    n: int
    p50: float
    p90: float
    p99: float


class TaskFigures(Struct, frozen=True, kw_only=True):
    """What is known of the tasks that had a request in a line, whole: with what they spent in other lines, too.

    A task whose outcome nobody told, or told as null, is ``unknown``: neither a success nor a failure, and in no rate
    and no cost per success. ``cost_per_success_usd`` is what all judged tasks cost, failures included, over those that
    succeeded; ``None`` where any of them has an unknown price: it is then more than ``cost_per_success_at_least_usd``.
    The intervals hold in 95 of 100 cases: Wilson's of the rate, the delta method's of the ratio.
    """

    tasks: int
    succeeded: int
    failed: int
    unknown: int
    unpriced: int
    success_rate: float | None
    success_rate_interval: Interval | None
    cost_usd: Decimal
    unknown_cost_usd: Decimal
    tool_and_recovery_cost_usd: Decimal
    cost_per_success_usd: float | None
    cost_per_success_at_least_usd: float | None
    cost_per_success_interval: Interval | None


class Line(Struct, frozen=True, kw_only=True):
    """One line. ``cost_usd`` is ``None`` where some attempts have no known price; ``priced_cost_usd`` is the rest.

    ``retry_cost_usd`` and ``wasted_cost_usd`` are parts of it: attempts beside the one whose answer came, and what was
    paid in vain, by why.
    """

    by: dict[str, str]
    requests: int
    served: int
    statuses: dict[str, int]
    attempts: int
    retries: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_usd: Decimal | None
    priced_cost_usd: Decimal
    unpriced_attempts: int
    retry_cost_usd: Decimal
    wasted_cost_usd: Decimal
    wasted: dict[str, Decimal]
    ttft_s: Quantiles | None
    itl_s: Quantiles | None
    tpot_s: Quantiles | None
    e2e_s: Quantiles | None
    tasks: TaskFigures


def line(by: dict[str, str], group: Group, tasks: TaskFigures) -> Line:
    """The line of a group, with the figures of the tasks that had a request in it."""
    return Line(
        by=by,
        requests=group.requests,
        served=group.statuses[Status.OK.value],
        statuses=dict(sorted(group.statuses.items())),
        attempts=group.attempts,
        retries=group.retries,
        prompt_tokens=group.prompt_tokens,
        cached_tokens=group.cached_tokens,
        output_tokens=group.output_tokens,
        cost_usd=usd(group.pico_usd) if not group.unpriced_attempts else None,
        priced_cost_usd=usd(group.pico_usd),
        unpriced_attempts=group.unpriced_attempts,
        retry_cost_usd=usd(group.retry_pico_usd),
        wasted_cost_usd=usd(sum(group.wasted.values())),
        wasted={kind: usd(group.wasted[kind]) for kind in WASTES},
        tasks=tasks,
        **{f"{name}_s": _quantiles(group, name) for name in group.times},
    )


def _quantiles(group: Group, name: str) -> Quantiles | None:
    found = group.times[name].quantiles(SHARES)
    return Quantiles(group.times[name].n, *found) if found is not None else None


class _Task(NamedTuple):
    success: bool | None
    usd: float
    pico_usd: int
    beside_pico_usd: int
    unpriced: bool


class Tasks:
    """All tasks of a report, each looked up once for each line that it is in: there may be hundreds of thousands.

    ``outcomes`` are what clients said: whether it succeeded, and the pico-dollars of tools and recovery.
    """

    def __init__(self, spending: Spending, outcomes: Outcomes) -> None:
        self._tasks = {
            key: _Task(success, (pico := spent + beside) / PICO_USD_PER_USD, pico, beside, key in spending.unpriced)
            for key, spent in spending.pico_usd.items()
            for success, beside in (outcomes.get(key, _NOBODY_SAID),)
        }

    def all_figures(self) -> TaskFigures:
        """Those of all tasks."""
        return self.figures(self._tasks.keys())

    def figures(self, tasks: Collection[TaskKey]) -> TaskFigures:
        """Those of a line."""
        n = wins = unpriced = total_pico = unknown_pico = beside_pico = 0
        sum_c = sum_cc = sum_cs = 0.0
        for success, cost, pico, beside, without_price in map(self._tasks.__getitem__, tasks):
            total_pico += pico
            beside_pico += beside
            if success is None:
                unknown_pico += pico
                continue
            n += 1
            sum_c += cost
            sum_cc += cost * cost
            unpriced += without_price
            if success:
                wins += 1
                sum_cs += cost
        at_least = sum_c / wins if wins else None
        return TaskFigures(
            tasks=len(tasks),
            succeeded=wins,
            failed=n - wins,
            unknown=len(tasks) - n,
            unpriced=unpriced,
            success_rate=wins / n if n else None,
            success_rate_interval=wilson(wins, n),
            cost_usd=usd(total_pico),
            unknown_cost_usd=usd(unknown_pico),
            tool_and_recovery_cost_usd=usd(beside_pico),
            cost_per_success_usd=at_least if not unpriced else None,
            cost_per_success_at_least_usd=at_least,
            cost_per_success_interval=ratio(n, sum_c, wins, sum_cc, sum_cs, wins) if not unpriced else None,
        )
