"""Reads decisions and served requests out of a ledger, of a running gateway too; changes nothing in it."""

from collections.abc import AsyncIterator
from typing import Any

from msgspec import Struct

from gateway.errors import ConfigurationError
from gateway.price import PICO_USD_PER_USD
from gateway.stores.decision_facts import IN_ROW, DecisionFacts, read_facts
from gateway.stores.ledger_lost import LedgerLost
from gateway.stores.prompt_blocks import read_ids
from gateway.stores.tables import LedgerTables

_SERVED = """
    SELECT seq, received_unix_s, tenant, model, route, prompt_tokens, output_tokens, ttft_s, cost_pico_usd, blocks
    FROM requests
    WHERE status = 'ok' AND attempts = 1 AND prompt_tokens > 0
        AND (received_unix_s > :after_unix_s OR (received_unix_s = :after_unix_s AND seq > :after_seq))
    ORDER BY received_unix_s, seq
    LIMIT :most
"""
_DECISION = f"""
    SELECT route, decision, {", ".join(IN_ROW)} FROM requests WHERE id = :id ORDER BY seq DESC LIMIT 1
"""  # noqa: S608  # our own names
_PAGE_ROWS = 5000
_BEFORE_ALL_UNIX_S = -1e18


class KeptDecision(Struct, frozen=True, kw_only=True):
    """A decision out of the ledger, and the route that it was made for."""

    route: str
    facts: DecisionFacts


class ServedRequest(Struct, frozen=True, kw_only=True):
    """A request that was served at the first attempt. Tokens are as the backend counted them."""

    received_unix_s: float
    tenant: str
    model: str
    route: str
    prompt_tokens: int
    output_tokens: int
    ttft_s: float | None
    cost_usd: float | None
    blocks: list[int]


async def kept_decision(tables: LedgerTables, request_id: str, *, where: str) -> KeptDecision:
    """The last decision on the request with this id; ``where`` names the ledger in errors.

    Raises:
        ConfigurationError: the ledger cannot be read, or has no decision for the request.
    """
    try:
        found = await tables.rows(_DECISION, id=request_id)
    except LedgerLost as error:
        raise ConfigurationError(f"the ledger cannot be read: {error}", file=where) from error
    if not found:
        raise ConfigurationError(f"there is no request `{request_id}`", file=where)
    ((route, kept, *row),) = found
    if kept is None:
        hint = "it was refused before anything was decided, or HEADRACE_LEDGER_DECISIONS was off"
        raise ConfigurationError(f"nothing is kept of a decision on `{request_id}`", file=where, hint=hint)
    try:
        return KeptDecision(route=route, facts=read_facts(kept, dict(zip(IN_ROW, row, strict=True))))
    except ValueError as error:
        raise ConfigurationError(str(error), file=where) from error


async def served_requests(
    tables: LedgerTables, *, since_unix_s: float | None = None, where: str
) -> AsyncIterator[list[ServedRequest]]:
    """The requests that were served, in the order of their arrival, page by page; ``where`` names the ledger in errors.

    Those that took more than one attempt are left out: what the first one would have cost, nobody knows.

    Raises:
        ConfigurationError: the ledger cannot be read.
    """
    after = (_BEFORE_ALL_UNIX_S if since_unix_s is None else since_unix_s, -1)
    while True:
        try:
            rows = await tables.rows(_SERVED, after_unix_s=after[0], after_seq=after[1], most=_PAGE_ROWS)
        except LedgerLost as error:
            raise ConfigurationError(f"the ledger cannot be read: {error}", file=where) from error
        if not rows:
            return
        after = (rows[-1][1], rows[-1][0])
        yield [_served(row) for row in rows]


def _served(row: tuple[Any, ...]) -> ServedRequest:
    _, received_unix_s, tenant, model, route, prompt_tokens, output_tokens, ttft_s, pico_usd, blocks = row
    return ServedRequest(
        received_unix_s=received_unix_s,
        tenant=tenant,
        model=model,
        route=route,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        ttft_s=ttft_s,
        cost_usd=pico_usd / PICO_USD_PER_USD if pico_usd is not None else None,
        blocks=read_ids(blocks),
    )
