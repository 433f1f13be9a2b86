"""Where a request meets the budget of its task: held, sent another way, or refused."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from gateway.errors import LimitExceeded
from gateway.fleet.fleet import Fleet
from gateway.ledger.journal import Journal
from gateway.limits.gate import dearest_usd, taken_by
from gateway.limits.limit import NANO
from gateway.limits.task_budgets import Amounts, Short, TaskBudgets
from gateway.rules.route import Route
from gateway.rules.tenancy import Identity
from gateway.rules.world import World
from gateway.task import TaskBudget
from gateway.types import Candidate

_MILLI = 1000
_WORDS: Mapping[str, Callable[[int], str]] = {
    "usd": lambda amount: f"${Decimal(amount) / NANO:,.4f}",
    "tokens": lambda amount: f"{amount:,} tokens",
    "seconds": lambda amount: f"{amount / _MILLI:,.1f} s of inference",
    "steps": lambda amount: f"{amount:,} steps",
}


class TaskBudgetExceeded(LimitExceeded):
    """The task has taken what it may. Coming back does not help: there is no ``Retry-After``."""

    code = "task_budget_exceeded"


class Effective(NamedTuple):
    """What holds for one request: the lowest of all budgets, and the route that goes on beyond it, or none."""

    amounts: dict[str, int]
    otherwise: str


class TaskAdmission:
    """See the module. ``fleet`` knows what the candidates charge, where money is limited."""

    def __init__(self, budgets: TaskBudgets, fleet: Fleet) -> None:
        self._budgets = budgets
        self._fleet = fleet

    async def admit(self, world: World, identity: Identity, route: Route, journal: Journal) -> Route:
        """The route on which the request goes on: its own, or the one that its budget names for what is beyond it.

        Where there is a budget, the journal gets what settles it at the request's end.

        Raises:
            TaskBudgetExceeded: naming what is used up; nothing is held.
        """
        effective = effective_budget(route, identity, journal.arrival.task.budget if journal.arrival.task else None)
        if not effective.amounts:
            return route
        short = await self._reserve(world, route, journal, effective.amounts)
        if short is None:
            return route
        if not effective.otherwise:
            raise _refusal(short)
        other = next(known for known in world.routes if known.name == effective.otherwise)
        journal.route = other.name
        if journal.request is not None:
            journal.forecast = other.forecast(journal.request)
        own = effective_budget(other, None, None)
        if own.amounts:
            short = await self._reserve(world, other, journal, own.amounts, beside=True)
            if short is not None:
                raise _refusal(short)
            return other
        self._budgets.count(journal.arrival.id, self._task(journal), tuple(effective.amounts))
        journal.settle = self._settle
        return other

    async def close(self) -> None:
        """Tells what is not told yet; idempotent."""
        await self._budgets.close()

    async def _reserve(
        self, world: World, route: Route, journal: Journal, amounts: Amounts, *, beside: bool = False
    ) -> Short | None:
        forecast = journal.forecast
        tokens = forecast.prompt_tokens + forecast.output_tokens_p90 if forecast is not None else 0
        usd = Decimal(0)
        if "usd" in amounts and forecast is not None:
            usd = dearest_usd(forecast, self._candidates(world, route, journal))
        claim = {"usd": _up(usd * NANO), "tokens": tokens, "steps": 1}
        task = self._task(journal) if not beside else f"{self._task(journal)}/{route.name}"
        short = await self._budgets.reserve(journal.arrival.id, task, amounts, claim)
        if short is None:
            journal.settle = self._settle
        return short

    def _candidates(self, world: World, route: Route, journal: Journal) -> Sequence[Candidate]:
        if journal.request is None or journal.forecast is None:
            return ()
        return self._fleet.snapshot(route, route.context(journal.request, journal.forecast), world.backends)

    def _settle(self, journal: Journal, ended_s: float) -> None:
        """What it took: tokens and money of all its attempts, the time from its arrival, and a step if it had any."""
        took = taken_by(journal)
        used = {
            "usd": took.nano_usd,
            "tokens": took.input_tokens + took.output_tokens,
            "seconds": int((ended_s - journal.arrival.received_s) * _MILLI) if journal.attempts else 0,
            "steps": took.requests,
        }
        self._budgets.settle(journal.arrival.id, used)

    def _task(self, journal: Journal) -> str:
        task = journal.arrival.task
        return f"{journal.arrival.tenant}/{task.id if task is not None else journal.arrival.id}"


def effective_budget(route: Route, identity: Identity | None, asked: TaskBudget | None) -> Effective:
    """The lowest of what the route, the tenant and the client's own header allow, of each measure."""
    rules = [rule for rule in (route.task, identity.task if identity is not None else None) if rule is not None]
    budgets = [rule.budget for rule in rules] + ([asked] if asked is not None else [])
    if not budgets:
        return Effective({}, "")
    amounts: dict[str, int] = {}
    for budget in budgets:
        for measure, amount in _amounts(budget):
            amounts[measure] = min(amount, amounts.get(measure, amount))
    return Effective(amounts, next((rule.otherwise for rule in rules if rule.otherwise), ""))


def _amounts(budget: TaskBudget) -> list[tuple[str, int]]:
    found: list[tuple[str, int | None]] = [
        ("usd", int(budget.usd * NANO) if budget.usd is not None else None),
        ("tokens", budget.tokens),
        ("seconds", int(budget.seconds * _MILLI) if budget.seconds is not None else None),
        ("steps", budget.steps),
    ]
    return [(measure, amount) for measure, amount in found if amount is not None]


def _up(amount: Decimal) -> int:
    return int(amount.to_integral_value(rounding="ROUND_UP"))


def _refusal(short: Short) -> TaskBudgetExceeded:
    said = _WORDS[short.measure]
    left = f"{said(short.left)} left, which this request may go beyond" if short.left else "it is used up"
    return TaskBudgetExceeded(f"the budget of this task is {said(short.budget)}: {left}", param="x-headrace-task")
