"""How busy a server of one's own is by its own gauges: with requests, too, that come to it past this gateway."""

import contextlib
import logging
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from backends._asking import Asking
from backends._http_fields import root_of
from gateway.facts import BackendFacts
from gateway.ports import Clock, Origin

_PATH = "/metrics"
_MOST_BYTES = 4 * 1024 * 1024
_MOST_REQUESTS = 1_000_000
"""A server that says more says nothing."""

_TIMEOUT_S = 5.0
_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{.*\})? +(\d+(?:\.\d*)?(?:[eE][+-]?[0-9]+)?)(?: |$)", re.MULTILINE)
"""A line of a gauge that is a number and none below zero."""

_log = logging.getLogger(__name__)


class ServedLoad:
    """Asks a server from time to time how many requests it has, running or waiting.

    What is not ours is the work of others: it counts until the next answer. Where none comes, nobody else is there.
    """

    def __init__(self) -> None:
        self._ours = 0
        self._others = 0
        self._told: tuple[int, BackendFacts, BackendFacts] | None = None
        self._asking = Asking()

    def follow(self, name: str, origin: Origin, gauges: Collection[str], clock: Clock, *, every_s: float) -> None:
        """Asks now, and again ``every_s``, until ``close``; the sum of ``gauges`` is how many requests it has."""
        work = self._follow(name, origin, gauges, clock, every_s)
        self._asking.begin(work, name=f"headrace-load-{name}")

    @contextlib.contextmanager
    def one_of_ours(self) -> Iterator[None]:
        """While one of our own requests is there."""
        self._ours += 1
        try:
            yield
        finally:
            self._ours -= 1

    def told(self, facts: BackendFacts) -> BackendFacts:
        """The facts, with how many requests are there; as they are where nobody else has any."""
        if not self._others:
            return facts
        in_flight = self._ours + self._others
        if self._told is None or self._told[:2] != (in_flight, facts):  # the same object as long as nothing changes
            self._told = (in_flight, facts, replace(facts, in_flight=in_flight))
        return self._told[2]

    async def close(self) -> None:
        """Asks no more; idempotent."""
        await self._asking.close()

    async def _follow(self, name: str, origin: Origin, gauges: Collection[str], clock: Clock, every_s: float) -> None:
        import httpx  # noqa: PLC0415  # a second's import, where it is wanted

        options: Any = {"headers": dict(origin.headers), "verify": origin.verify, "timeout": _TIMEOUT_S}
        async with httpx.AsyncClient(base_url=root_of(origin.base_url), **options) as client:
            while True:
                ours = self._ours
                try:
                    async with client.stream("GET", _PATH) as answer:
                        answer.raise_for_status()
                        requests = gauge_sum(await _text(answer), gauges)
                except httpx.HTTPError as error:
                    _log.info("%s does not say how busy it is: %s", name, type(error).__name__)
                    requests = 0
                self._others = max(requests - ours, 0)
                await clock.sleep(every_s)


def gauge_sum(text: str, gauges: Collection[str]) -> int:
    """The sum of all samples of ``gauges`` in Prometheus' text format; zero where there is none."""
    total = sum(float(sample[2]) for sample in _SAMPLE.finditer(text) if sample[1] in gauges)
    return int(total) if total < _MOST_REQUESTS else 0


async def _text(answer: Any) -> str:
    body = bytearray()
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > _MOST_BYTES:
            break
    return body[:_MOST_BYTES].decode("utf-8", "replace")
