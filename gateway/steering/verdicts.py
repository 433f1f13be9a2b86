"""Who said what of a task, what is believed of it, and what it was counted as: so that another word can replace it.

The client's word goes before a judge's, whenever it comes; of several judges the one who spoke last is believed. A
repeated verdict changes nothing. What was counted is remembered for the tasks that were judged last; of older ones, and
of those that another replica counted, the verdict itself says what it revises.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from msgspec.structs import replace

from gateway.steering.canary import Counted
from gateway.task import CLIENT, JudgedRequest, Verdict

MOST_TASKS = 50_000

Key = tuple[str, str]


@dataclass(slots=True)
class Account:
    """A task as it was counted: ``success`` is ``None`` where it was not. ``trials`` are those of routes, by name."""

    requests: tuple[JudgedRequest, ...]
    success: bool | None
    trials: dict[str, Counted] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """What a verdict changes: how the task was counted so far, and how it is to be counted now."""

    before: Account
    after: Account


@dataclass(slots=True)
class _Task:
    said: dict[str, bool | None]
    account: Account


class Verdicts:
    """Remembers the tasks that were judged last."""

    def __init__(self, *, most_tasks: int = MOST_TASKS) -> None:
        self._tasks: OrderedDict[Key, _Task] = OrderedDict()
        self._most_tasks = most_tasks

    def take(self, verdict: Verdict) -> Change | None:
        """What the verdict changes; ``None`` where it is the same once more."""
        key = (verdict.tenant, verdict.task)
        known = self._tasks.pop(key, None)
        said = dict(known.said) if known is not None else {}
        if verdict.revises:
            said[verdict.source] = verdict.earlier
        before = self._counted(known, verdict, said)
        said.pop(verdict.source, None)
        said[verdict.source] = verdict.success
        requests = verdict.requests or before.requests
        after = Account(_timed(requests, verdict), _believed(said))
        same = before.success is after.success and _ids(before) == _ids(after)
        self._tasks[key] = _Task(said, before if same else after)
        if len(self._tasks) > self._most_tasks:
            self._tasks.popitem(last=False)
        return None if same else Change(before, after)

    def _counted(self, known: _Task | None, verdict: Verdict, said: dict[str, bool | None]) -> Account:
        """As it was counted so far: as remembered, unless another replica has counted it otherwise since."""
        success = _believed(said)
        if known is not None and known.account.success is success:
            return known.account
        requests = known.account.requests if known is not None else _timed(verdict.requests, verdict)
        return Account(requests, success)


def _believed(said: dict[str, bool | None]) -> bool | None:
    """The client's word, else that of the judge who spoke last."""
    if said.get(CLIENT) is not None:
        return said[CLIENT]
    return next((success for success in reversed(said.values()) if success is not None), None)


def _ids(account: Account) -> list[str]:
    return [request.id for request in account.requests]


def _timed(requests: tuple[JudgedRequest, ...], verdict: Verdict) -> tuple[JudgedRequest, ...]:
    """Requests of which nobody says when they came count as old as their verdict."""
    if all(request.received_unix_s for request in requests):
        return requests
    return tuple([_at(request, verdict.at_unix_s) for request in requests])


def _at(request: JudgedRequest, unix_s: float) -> JudgedRequest:
    return request if request.received_unix_s else replace(request, received_unix_s=unix_s)
