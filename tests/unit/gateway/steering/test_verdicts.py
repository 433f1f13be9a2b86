"""Who said what of a task, and what that changes."""

from typing import Any

import pytest

from gateway.steering.verdicts import Change, Verdicts


def _counted(changes: list[list[Change]]) -> dict[str, int]:
    """How often each request counts as a success (above 0) or a failure after all of it."""
    counts: dict[str, int] = {}
    for change in (one for some in changes for one in some):
        for account, sign in ((change.before, -1), (change.after, 1)):
            for request in account.requests:
                if account.success is not None:
                    counts[request.id] = counts.get(request.id, 0) + sign * (1 if account.success else -1)
    return {request: count for request, count in counts.items() if count}


def test_the_first_verdict_counts_and_a_repeated_one_changes_nothing(judged_request: Any, verdict: Any) -> None:
    """However often a client says the same."""
    verdicts = Verdicts()
    (first,) = verdicts.take(verdict(judged_request(), success=True))
    assert (None, True) == (first.before.success, first.after.success)
    assert [] == verdicts.take(verdict(judged_request(), success=True, revises=True, earlier=True))
    assert [] == verdicts.take(verdict(judged_request(), success=True))


def test_the_last_word_wins(judged_request: Any, verdict: Any) -> None:
    """The old one is taken back as it was counted."""
    verdicts = Verdicts()
    verdicts.take(verdict(judged_request(1), success=True))
    (change,) = verdicts.take(verdict(judged_request(1), judged_request(2), success=False, revises=True, earlier=True))
    assert (True, ["req-1"]) == (change.before.success, [one.id for one in change.before.requests])
    assert (False, ["req-1", "req-2"]) == (change.after.success, [one.id for one in change.after.requests])


def test_a_verdict_that_is_taken_back_counts_no_more(judged_request: Any, verdict: Any) -> None:
    """Nobody can tell after all."""
    verdicts = Verdicts()
    changes = [
        verdicts.take(verdict(judged_request(), success=True)),
        verdicts.take(verdict(judged_request(), success=None, revises=True, earlier=True)),
    ]
    assert {} == _counted(changes)


@pytest.mark.parametrize("order", [("client", "json"), ("json", "client")])
def test_the_clients_word_goes_before_a_judges(judged_request: Any, verdict: Any, order: tuple[str, str]) -> None:
    """Whoever speaks first; where the client takes its word back, the judge is believed again."""
    verdicts = Verdicts()
    said = {"client": False, "json": True}
    changes = [verdicts.take(verdict(judged_request(), success=said[source], source=source)) for source in order]
    assert {"req-0": -1} == _counted(changes)
    changes.append(verdicts.take(verdict(judged_request(), success=None, revises=True, earlier=False)))
    assert {"req-0": 1} == _counted(changes)


def test_judges_speak_of_answers_and_the_client_of_the_task(judged_request: Any, verdict: Any) -> None:
    """Each answer counts as it was judged, until the client has its word on all of them."""
    verdicts = Verdicts()
    requests = [judged_request(number) for number in range(3)]
    changes = [verdicts.take(verdict(request, success=request.id != "req-1", source="json")) for request in requests]
    assert {"req-0": 1, "req-1": -1, "req-2": 1} == _counted(changes)
    changes.append(verdicts.take(verdict(*requests, success=False)))
    assert {"req-0": -1, "req-1": -1, "req-2": -1} == _counted(changes)
    changes.append(verdicts.take(verdict(judged_request(9), success=True, source="json")))
    assert "req-9" not in _counted(changes), "the client has spoken of the task already"


def test_of_two_judges_the_one_who_spoke_last_is_believed(judged_request: Any, verdict: Any) -> None:
    """A judge that cannot tell says nothing."""
    verdicts = Verdicts()
    said = (("json", True), ("regex", False), ("json", None))
    changes = [verdicts.take(verdict(judged_request(), success=success, source=source)) for source, success in said]
    assert {"req-0": -1} == _counted(changes)


def test_what_another_replica_counted_is_taken_back_by_what_the_verdict_says_of_it(
    judged_request: Any, verdict: Any
) -> None:
    """Here nobody has heard of the task before."""
    (change,) = Verdicts().take(verdict(judged_request(), success=False, revises=True, earlier=True))
    assert (True, False) == (change.before.success, change.after.success)


def test_what_another_replica_has_changed_since_is_taken_back_as_changed(judged_request: Any, verdict: Any) -> None:
    """The verdict knows better than a memory that has missed one."""
    verdicts = Verdicts()
    verdicts.take(verdict(judged_request(), success=True))
    (change,) = verdicts.take(verdict(judged_request(), success=True, revises=True, earlier=False))
    assert (False, True) == (change.before.success, change.after.success)


def test_a_verdict_that_came_before_the_requests_is_counted_when_it_is_repeated(
    judged_request: Any, verdict: Any
) -> None:
    """With the requests that are known then."""
    verdicts = Verdicts()
    (first,) = verdicts.take(verdict(success=True))
    assert () == first.after.requests
    (change,) = verdicts.take(verdict(judged_request(), success=True, revises=True, earlier=True))
    assert ((), 1) == (change.before.requests, len(change.after.requests))


def test_the_memory_is_bounded(judged_request: Any, verdict: Any) -> None:
    """The task that was judged longest ago is forgotten; then the verdict alone tells what was counted."""
    verdicts = Verdicts(most_tasks=2)
    for task in ("a", "b", "c"):
        verdicts.take(verdict(judged_request(), success=True, task=task))
        verdicts.take(verdict(judged_request(ord(task)), success=True, task=task, source="json"))
    (change,) = verdicts.take(verdict(judged_request(), success=True, task="a"))
    assert change.before.success is None
    assert (2, 2) == (len(verdicts._tasks), len(verdicts._answers))


def test_requests_of_unknown_age_are_as_old_as_their_verdict(judged_request: Any, verdict: Any) -> None:
    """Those whose time is known keep it."""
    requests = (judged_request(1, received_unix_s=0.0), judged_request(2))
    (change,) = Verdicts().take(verdict(*requests, success=True, at_unix_s=2_000_000.0))
    assert [2_000_000.0, 1_000_000.0] == [one.received_unix_s for one in change.after.requests]


def test_tasks_of_two_tenants_are_two(judged_request: Any, verdict: Any) -> None:
    """Whatever they are called."""
    verdicts = Verdicts()
    verdicts.take(verdict(judged_request(), success=True))
    (change,) = verdicts.take(verdict(judged_request(), success=True, tenant="other"))
    assert change.before.success is None
