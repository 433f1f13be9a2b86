"""Plays a case, whichever driver it is for."""

from collections.abc import Awaitable, Callable

from tests.fuzzing.case import Case
from tests.fuzzing.clients import LIMITS, serve
from tests.fuzzing.upstreams import ask


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
                assert outcome == cut_outcome, f"otherwise when cut every {every} bytes"
