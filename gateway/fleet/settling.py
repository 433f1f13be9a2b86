"""Waits for backends that are about to be well, so that the first request does not come too early for them."""

import logging
from collections.abc import Callable, Mapping

from gateway.ports import Backend, Clock

_GLANCE_S = 0.02

_log = logging.getLogger(__name__)


async def settle(
    backends: Callable[[], Mapping[str, Backend]], *, clock: Clock, limit_s: float, told_to_stop: Callable[[], bool]
) -> None:
    """Returns when nobody is about to be well any more, after ``limit_s`` at most, or when this process must stop.

    Who is down then, or with no end in sight, is named in the log.
    """
    deadline_s = clock.now_s() + limit_s
    while _somebody_is_coming(backends()) and not told_to_stop() and clock.now_s() < deadline_s:
        await clock.sleep(_GLANCE_S)
    for name, backend in backends().items():
        if (reason := backend.facts().down) is not None:
            _log.warning("%s is down: %s", name, reason)


def _somebody_is_coming(backends: Mapping[str, Backend]) -> bool:
    facts = [backend.facts() for backend in backends.values()]
    return any(known.down is not None and known.back_in_s is not None for known in facts)
