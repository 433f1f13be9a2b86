"""What a client is told where its request did not go well: an answer of its own, or the last event of its stream."""

import asyncio

from gateway.attempt.answer_headers import error_headers
from gateway.errors import ClientGone, HeadraceError
from gateway.exchange import Exchange
from gateway.ledger.ends import CLIENT_GONE, outcome_of
from gateway.ledger.journal import Journal
from gateway.wire.format import Format
from gateway.wire.formats import FORMATS
from gateway.wire.responses_format import ResponsesFormat

_LAST_WORDS_S = 5.0
"""How long a client that does not read may keep an error waiting."""


async def tell(exchange: Exchange, journal: Journal, error: HeadraceError) -> None:
    """Tells the client in its own format, and the journal what came of it; who hung up is told nothing."""
    journal.outcome = CLIENT_GONE if exchange.gone else outcome_of(error, started=exchange.started)
    if exchange.gone:
        return
    try:
        async with asyncio.timeout(_LAST_WORDS_S):
            await _say(exchange, journal, error)
    except (ClientGone, TimeoutError):
        journal.outcome = CLIENT_GONE


async def _say(exchange: Exchange, journal: Journal, error: HeadraceError) -> None:
    wire = FORMATS[exchange.operation]
    if not exchange.started:
        headers = error_headers(journal.arrival.id, error, journal.attempts, journal.headers, arrival=journal.arrival)
        await exchange.answer(error.http_status, headers, wire.error_body(error))
    elif exchange.streaming and _has_words(journal):
        await exchange.write(_event(wire, journal, error))
        await exchange.close()


def _event(wire: Format, journal: Journal, error: HeadraceError) -> bytes:
    remembered = journal.request.remembered if journal.request is not None else None
    if isinstance(wire, ResponsesFormat) and remembered is not None:
        return wire.error_event(error, last=remembered.last.data)
    return wire.error_event(error)


def _has_words(journal: Journal) -> bool:
    """Whether an error has a place in the answer that was begun: sound is cut short, and its framing tells so."""
    request = journal.request
    return request is None or request.units is None or request.stream
