from collections.abc import Callable

import pytest

from gateway.ledger.journal import Journal
from gateway.types import LedgerEntry, Outcome, Status


def test_entry_has_what_was_noted(make_entry: Callable[..., LedgerEntry]) -> None:
    """Closing yields an entry with every field that the pipeline filled in."""
    expected = make_entry()
    journal = Journal(expected.arrival)
    journal.request, journal.route, journal.forecast = expected.request, expected.route, expected.forecast
    journal.attempts.extend(expected.attempts)
    journal.outcome = expected.outcome
    assert expected == journal.close(expected.ended_s)


def test_refused_request_has_an_entry_too(make_entry: Callable[..., LedgerEntry]) -> None:
    """A request that got nowhere still leaves its arrival and its outcome."""
    outcome = Outcome(status=Status.REJECTED, http_status=401, error="Unauthenticated")
    journal = Journal(make_entry().arrival)
    journal.outcome = outcome
    entry = journal.close(101.0)
    assert (None, "", None, None, (), outcome) == (
        entry.request,
        entry.route,
        entry.forecast,
        entry.decision,
        entry.attempts,
        entry.outcome,
    )


def test_missing_outcome_is_recorded_as_a_bug(make_entry: Callable[..., LedgerEntry]) -> None:
    """A pipeline that forgot the outcome is told on in the ledger instead of losing the request."""
    entry = Journal(make_entry().arrival).close(101.0)
    assert (Status.BUG, 500) == (entry.outcome.status, entry.outcome.http_status)


def test_second_close_raises(make_entry: Callable[..., LedgerEntry]) -> None:
    """A request is recorded once; a second close is a bug that shows itself."""
    journal = Journal(make_entry().arrival)
    journal.close(101.0)
    with pytest.raises(RuntimeError, match="req-0 is already closed"):
        journal.close(102.0)


def test_later_changes_do_not_reach_the_entry(make_entry: Callable[..., LedgerEntry]) -> None:
    """The entry's attempts are its own: the journal's list may go on living."""
    journal = Journal(make_entry().arrival)
    entry = journal.close(101.0)
    journal.attempts.extend(make_entry().attempts)
    assert () == entry.attempts


def test_repr_shows_no_prompt(marked_entry: LedgerEntry, marker: str) -> None:
    """A journal in a traceback's locals or a debug line says nothing of what it holds."""
    journal = Journal(marked_entry.arrival, request=marked_entry.request)
    assert marker not in repr(journal)
