"""The record of an answer before anything is said of it."""

from gateway.judgement import JudgedAnswer, Occasion, cannot_say
from gateway.ledger.journal import Journal
from gateway.types import Attempt, Status

_NOT_YET = cannot_say("not judged yet")


def served_attempt(attempts: list[Attempt]) -> tuple[int, Attempt] | None:
    """The attempt whose answer came whole, and its place among all, from one: the last such one."""
    for number in range(len(attempts), 0, -1):
        if attempts[number - 1].status is Status.OK:
            return number, attempts[number - 1]
    return None


def draft(journal: Journal, occasion: Occasion, number: int, attempt: Attempt) -> JudgedAnswer:
    """The record of the answer that an attempt gave, but for what is said of it."""
    arrival = journal.arrival
    return JudgedAnswer(
        request_id=arrival.id,
        tenant=arrival.tenant,
        task=arrival.task.id if arrival.task is not None else "",
        route=journal.route,
        backend=attempt.backend,
        model=attempt.model,
        occasion=occasion,
        judgement=_NOT_YET,
        attempt=number,
        kind=journal.forecast.kind if journal.forecast is not None else None,
        usage=attempt.usage,
        cost_usd=attempt.cost_usd,
        answer_s=max(attempt.ended_s - attempt.started_s, 0.0),
        received_unix_s=arrival.received_unix_s,
        trace=arrival.trace,
    )
