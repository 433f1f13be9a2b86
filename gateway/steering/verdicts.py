"""Who said what of a task, what is believed of it, and what it was counted as: so that another word can replace it.

A client speaks of a task, all of its requests together. A judge speaks of one answer, which counts as a task of its own
until the client has its word on the task: that goes before the judges', whenever it comes. Of several judges of an
answer the one who spoke last is believed. A repeated verdict changes nothing. What was counted is remembered for what
was judged last; of older tasks, and of those that another replica counted, the verdict says what it revises.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from gateway.steering.canary import Counted
from gateway.task import CLIENT, JudgedRequest, Verdict

MOST_TASKS = 50_000

Key = tuple[str, str]
"""A tenant, and a task or a request of it."""


@dataclass(slots=True)
class Account:
    """A task as it was counted: ``success`` is ``None`` where it was not. ``trials`` are those of routes, by name."""

    requests: tuple[JudgedRequest, ...]
    success: bool | None
    trials: dict[str, Counted] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """What a verdict changes: how something of ``task`` was counted so far, and how it is to be counted now."""

    task: Key
    before: Account
    after: Account


@dataclass(slots=True)
class _Known:
    """What was said, by whom; how it is counted; and of an answer, how it would be if its client had said nothing."""

    task: Key
    said: dict[str, bool | None]
    account: Account
    overruled: bool = False


class Verdicts:
    """Remembers the tasks, and the answers, that were judged last."""

    def __init__(self, *, most_tasks: int = MOST_TASKS) -> None:
        self._tasks: OrderedDict[Key, _Known] = OrderedDict()
        self._answers: OrderedDict[Key, _Known] = OrderedDict()
        self._most_tasks = most_tasks

    def take(self, verdict: Verdict) -> list[Change]:
        """What the verdict changes; nothing where it is the same once more."""
        return self._of_client(verdict) if verdict.source == CLIENT else self._of_judge(verdict)

    def _of_client(self, verdict: Verdict) -> list[Change]:
        key = (verdict.tenant, verdict.task)
        known = self._tasks.pop(key, None)
        known, change = _revised(known, verdict, task=key, overruled=False)
        self._put(self._tasks, key, known)
        told = {request.id for account in (change.before, change.after) for request in account.requests}
        overrules = known.account.success is not None
        changes = [*self._overruled(verdict.tenant, sorted(told), overrules=overrules)]
        return changes if _is_same(change) else [*changes, change]

    def _of_judge(self, verdict: Verdict) -> list[Change]:
        task = (verdict.tenant, verdict.task)
        key = (verdict.tenant, verdict.requests[0].id if verdict.requests else verdict.task)
        client = self._tasks.get(task)
        overruled = client is not None and client.account.success is not None
        known, change = _revised(self._answers.pop(key, None), verdict, task=task, overruled=overruled)
        self._put(self._answers, key, known)
        return [] if _is_same(change) else [change]

    def _overruled(self, tenant: str, requests: list[str], *, overrules: bool) -> Iterator[Change]:
        """What judges said of the requests counts no more, or again, since their client has spoken."""
        for request in requests:
            known = self._answers.get((tenant, request))
            if known is not None and known.overruled != overrules:
                known.overruled = overrules
                before = known.account
                known.account = Account(before.requests, None if overrules else _last(known.said))
                change = Change(known.task, before, known.account)
                if not _is_same(change):
                    yield change

    def _put(self, among: OrderedDict[Key, _Known], key: Key, known: _Known) -> None:
        among[key] = known
        if len(among) > self._most_tasks:
            among.popitem(last=False)


def _revised(known: _Known | None, verdict: Verdict, *, task: Key, overruled: bool) -> tuple[_Known, Change]:
    """What is known with the verdict, and what that changes."""
    said = dict(known.said) if known is not None else {}
    if verdict.revises:
        said[verdict.source] = verdict.earlier
    before = _counted(known, verdict, None if overruled else _last(said))
    said.pop(verdict.source, None)
    said[verdict.source] = verdict.success
    requests = _timed(verdict.requests, verdict) or before.requests
    after = Account(requests, None if overruled else _last(said))
    change = Change(task, before, after)
    return _Known(task, said, before if _is_same(change) else after, overruled), change


def _counted(known: _Known | None, verdict: Verdict, success: bool | None) -> Account:  # noqa: FBT001  # a verdict's word
    """As it was counted so far: as remembered, unless another replica has counted it otherwise since."""
    if known is not None and known.account.success is success:
        return known.account
    requests = known.account.requests if known is not None else _timed(verdict.requests, verdict)
    return Account(requests, success)


def _is_same(change: Change) -> bool:
    ids = [[request.id for request in account.requests] for account in (change.before, change.after)]
    return change.before.success is change.after.success and (change.after.success is None or ids[0] == ids[1])


def _last(said: dict[str, bool | None]) -> bool | None:
    """The last word of those who could tell."""
    return next((success for success in reversed(said.values()) if success is not None), None)


def _timed(requests: tuple[JudgedRequest, ...], verdict: Verdict) -> tuple[JudgedRequest, ...]:
    """Requests of which nobody says when they came count as old as their verdict."""
    if all(request.received_unix_s for request in requests):
        return requests
    return tuple([one if one.received_unix_s else replace(one, received_unix_s=verdict.at_unix_s) for one in requests])
