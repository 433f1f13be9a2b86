"""Reads out of the ledger what judges said of a request's answers."""

from msgspec import Struct

from gateway.errors import ConfigurationError
from gateway.stores.ledger_lost import LedgerLost
from gateway.stores.tables import LedgerTables

_ANSWERS = """
    SELECT id, occasion, attempt, backend, model, success, score, reason, escalated_for
    FROM judged_answers WHERE request_id = :id ORDER BY judged_unix_s, attempt
"""
_VERDICTS = """
    SELECT answer_id, judge, success, reason
    FROM verdicts WHERE answer_id IN (SELECT id FROM judged_answers WHERE request_id = :id) ORDER BY answer_id, n
"""


class KeptVerdict(Struct, frozen=True, kw_only=True):
    """What was said of one answer; ``judges`` are name, success and reason of each judge."""

    occasion: str
    attempt: int
    backend: str
    model: str
    success: bool | None
    score: float | None
    reason: str
    escalated_for: str
    judges: tuple[tuple[str, bool | None, str], ...] = ()


async def kept_verdicts(tables: LedgerTables, request_id: str, *, where: str) -> tuple[KeptVerdict, ...]:
    """The verdicts on the answers to the request with this id, in the order in which they fell.

    Raises:
        ConfigurationError: the ledger cannot be read; ``where`` names it.
    """
    try:
        answers = await tables.rows(_ANSWERS, id=request_id)
        said = await tables.rows(_VERDICTS, id=request_id)
    except LedgerLost as error:
        raise ConfigurationError(f"the ledger cannot be read: {error}", file=where) from error
    return tuple(
        KeptVerdict(
            occasion=occasion,
            attempt=attempt,
            backend=backend,
            model=model,
            success=_said(success),
            score=score,
            reason=reason,
            escalated_for=escalated_for,
            judges=tuple((judge, _said(one), why) for of, judge, one, why in said if of == answer_id),
        )
        for answer_id, occasion, attempt, backend, model, success, score, reason, escalated_for in answers
    )


def _said(success: int | None) -> bool | None:
    return None if success is None else bool(success)
