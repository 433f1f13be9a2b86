"""Reads a ledger's file, of a running gateway too; changes nothing in it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from gateway.errors import ConfigurationError
from gateway.price import PICO_USD_PER_USD
from gateway.stores.database import open_for_reading
from gateway.stores.decision_facts import DecisionFacts, read_facts
from gateway.stores.prompt_blocks import read_ids

_SERVED = """
    SELECT received_unix_s, tenant, model, route, prompt_tokens, output_tokens, ttft_s, cost_pico_usd, blocks
    FROM requests
    WHERE status = 'ok' AND attempts = 1 AND prompt_tokens > 0 AND (?1 IS NULL OR received_unix_s >= ?1)
    ORDER BY received_unix_s, seq
"""
_DECISION = "SELECT route, decision FROM requests WHERE id = ?1 ORDER BY seq DESC LIMIT 1"


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


def kept_decision(path: Path, request_id: str) -> KeptDecision:
    """The last decision on the request with this id.

    Raises:
        ConfigurationError: the ledger cannot be read, or has no decision for the request.
    """
    with closing(open_for_reading(path)) as connection:
        found = connection.execute(_DECISION, (request_id,)).fetchone()
    if found is None:
        raise ConfigurationError(f"there is no request `{request_id}`", file=str(path))
    route, kept = found
    if kept is None:
        hint = "it was refused before anything was decided, or HEADRACE_LEDGER_DECISIONS was off"
        raise ConfigurationError(f"nothing is kept of a decision on `{request_id}`", file=str(path), hint=hint)
    try:
        return KeptDecision(route=route, facts=read_facts(kept))
    except ValueError as error:
        raise ConfigurationError(str(error), file=str(path)) from error


def served_requests(path: Path, *, since_unix_s: float | None = None) -> Iterator[ServedRequest]:
    """The requests that were served, in the order of their arrival, one by one.

    Those that took more than one attempt are left out: what the first one would have cost, nobody knows.

    Raises:
        ConfigurationError: the ledger cannot be read.
    """
    with closing(open_for_reading(path)) as connection:
        for row in connection.execute(_SERVED, (since_unix_s,)):
            received_unix_s, tenant, model, route, prompt_tokens, output_tokens, ttft_s, pico_usd, blocks = row
            yield ServedRequest(
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
