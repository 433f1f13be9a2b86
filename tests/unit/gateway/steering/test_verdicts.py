"""Who said what of a task, and what that changes."""

from typing import Any

import pytest

from gateway.steering.verdicts import Verdicts


def _last(changes: list[Any]) -> Any:
    """What the task counts as after all of it."""
    return [change.after.success for change in changes if change is not None][-1]


def test_the_first_verdict_counts_and_a_repeated_one_changes_nothing(judged_request: Any, verdict: Any) -> None:
    """However often a client says the same."""
    verdicts = Verdicts()
    first = verdicts.take(verdict(judged_request(), success=True))
    assert first is not None
    assert (None, True) == (first.before.success, first.after.success)
    assert verdicts.take(verdict(judged_request(), success=True, revises=True, earlier=True)) is None
    assert verdicts.take(verdict(judged_request(), success=True)) is None


def test_the_last_word_wins(judged_request: Any, verdict: Any) -> None:
    """The old one is taken back as it was counted."""
    verdicts = Verdicts()
    verdicts.take(verdict(judged_request(1), success=True))
    change = verdicts.take(verdict(judged_request(1), judged_request(2), success=False, revises=True, earlier=True))
    assert change is not None
    assert (True, ["req-1"]) == (change.before.success, [one.id for one in change.before.requests])
    assert (False, ["req-1", "req-2"]) == (change.after.success, [one.id for one in change.after.requests])


def test_a_verdict_that_is_taken_back_counts_no_more(judged_request: Any, verdict: Any) -> None:
    """Nobody can tell after all."""
    verdicts = Verdicts()
    verdicts.take(verdict(judged_request(), success=True))
    change = verdicts.take(verdict(judged_request(), success=None, revises=True, earlier=True))
    assert change is not None
    assert change.after.success is None


@pytest.mark.parametrize("order", [("client", "json"), ("json", "client")])
def test_the_clients_word_goes_before_a_judges(judged_request: Any, verdict: Any, order: tuple[str, str]) -> None:
    """Whoever speaks first; where the client takes its word back, the judge is believed again."""
    verdicts = Verdicts()
    said = {"client": False, "json": True}
    changes = [verdicts.take(verdict(judged_request(), success=said[source], source=source)) for source in order]
    assert _last(changes) is False
    back = verdicts.take(verdict(judged_request(), success=None, source="client", revises=True, earlier=False))
    assert _last([back]) is True


def test_of_two_judges_the_one_who_spoke_last_is_believed(judged_request: Any, verdict: Any) -> None:
    """A judge that cannot tell says nothing."""
    verdicts = Verdicts()
    said = (("json", True), ("regex", False), ("json", None))
    changes = [verdicts.take(verdict(judged_request(), success=success, source=source)) for source, success in said]
    assert _last(changes) is False


def test_what_another_replica_counted_is_taken_back_by_what_the_verdict_says_of_it(
    judged_request: Any, verdict: Any
) -> None:
    """Here nobody has heard of the task before."""
    change = Verdicts().take(verdict(judged_request(), success=False, revises=True, earlier=True))
    assert change is not None
    assert (True, False) == (change.before.success, change.after.success)


def test_what_another_replica_has_changed_since_is_taken_back_as_changed(judged_request: Any, verdict: Any) -> None:
    """The verdict knows better than a memory that has missed one."""
    verdicts = Verdicts()
    verdicts.take(verdict(judged_request(), success=True))
    change = verdicts.take(verdict(judged_request(), success=True, revises=True, earlier=False))
    assert change is not None
    assert (False, True) == (change.before.success, change.after.success)


def test_a_verdict_that_came_before_the_requests_is_counted_when_it_is_repeated(
    judged_request: Any, verdict: Any
) -> None:
    """With the requests that are known then."""
    verdicts = Verdicts()
    first = verdicts.take(verdict(success=True))
    assert first is not None
    assert () == first.after.requests
    change = verdicts.take(verdict(judged_request(), success=True, revises=True, earlier=True))
    assert change is not None
    assert ((), 1) == (change.before.requests, len(change.after.requests))


def test_the_memory_is_bounded(judged_request: Any, verdict: Any) -> None:
    """The task that was judged longest ago is forgotten; then the verdict alone tells what was counted."""
    verdicts = Verdicts(most_tasks=2)
    for task in ("a", "b", "c"):
        verdicts.take(verdict(judged_request(), success=True, task=task))
    change = verdicts.take(verdict(judged_request(), success=True, task="a"))
    assert change is not None
    assert change.before.success is None


def test_requests_of_unknown_age_are_as_old_as_their_verdict(judged_request: Any, verdict: Any) -> None:
    """Those whose time is known keep it."""
    requests = (judged_request(1, received_unix_s=0.0), judged_request(2))
    change = Verdicts().take(verdict(*requests, success=True, at_unix_s=2_000_000.0))
    assert change is not None
    assert [2_000_000.0, 1_000_000.0] == [one.received_unix_s for one in change.after.requests]


def test_tasks_of_two_tenants_are_two(judged_request: Any, verdict: Any) -> None:
    """Whatever they are called."""
    verdicts = Verdicts()
    verdicts.take(verdict(judged_request(), success=True))
    change = verdicts.take(verdict(judged_request(), success=True, tenant="other"))
    assert change is not None
    assert change.before.success is None
