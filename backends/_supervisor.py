"""Keeps something alive that may die: starts it again, and waits longer each time it dies young."""

import logging
from collections.abc import Awaitable, Callable

from tenacity import AsyncRetrying, retry_if_exception_type, wait_exponential

from gateway.ports import Clock

_logger = logging.getLogger(__name__)


class _DiedYoung(Exception):
    """It lived for less than a healthy time."""


async def keep_alive(
    live: Callable[[], Awaitable[None]], *, clock: Clock, healthy_s: float, shortest_s: float, longest_s: float
) -> None:
    """Runs ``live`` again whenever it returns or fails, for ever: end it by cancelling.

    Args:
        live: one life, from start to death. What it raises is logged and counts as a death.
        clock: measures lives and waits.
        healthy_s: after a life of so long the next one starts at once, and the waits begin anew.
        shortest_s: the wait after the first early death; it doubles with every further one.
        longest_s: and grows no further than this.
    """

    async def live_once() -> None:
        born_s = clock.now_s()
        try:
            await live()
        except Exception:  # whatever it is, the next life may be better, and the log has it
            _logger.exception("a supervised process could not be run")
        if clock.now_s() - born_s < healthy_s:
            raise _DiedYoung

    while True:
        async for attempt in AsyncRetrying(
            sleep=clock.sleep,
            wait=wait_exponential(multiplier=shortest_s, max=longest_s),
            retry=retry_if_exception_type(_DiedYoung),
        ):
            with attempt:
                await live_once()
