"""Plays a case, whichever driver it is for."""

from collections.abc import Awaitable, Callable

from tests.fuzzing.case import Case
from tests.fuzzing.clients import LIMITS, serve
from tests.fuzzing.upstreams import ask

_TOO_LONG = (b"431", b"414")


async def play(case: Case) -> None:
    """Plays a case, and the same bytes in other cuts where they should be understood as the same.

    Raises:
        AssertionError: a promise was broken.
        Exception: whatever came out of a callback.
    """
    run: Callable[[Case], Awaitable[object]] = serve if case.driver == "server" else ask
    outcome = await run(case)
    sent = case.sent
    # What is limited by reads, awaited by the client, or answered before its end depends on the cut.
    if sent and case.service in {"whole", "one"} and len(sent) <= LIMITS.max_header_bytes and b"xpect" not in sent:
        for every in (len(sent), 1):
            cut_outcome = await run(case.cut(every))
            if outcome is not None and cut_outcome is not None:
                assert _settled(outcome) == _settled(cut_outcome), f"otherwise when cut every {every} bytes"


def _settled(outcome: object) -> object:
    """The outcome without what the cut decides: as what a head is refused that is both too long and no HTTP.

    The parser tells of a field only when the next one has begun, so either may be found first.
    """
    if isinstance(outcome, list) and outcome and outcome[-1] in _TOO_LONG:
        return [*outcome[:-1], b"400"]
    return outcome
