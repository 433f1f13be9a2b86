"""What few gateways are ever asked for besides answers is made when somebody first asks: it is much to load."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from typing import Protocol

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.batching.place import may_have_batches
from gateway.clock import until_set
from gateway.fault import place_of
from gateway.house import House
from gateway.ports import Clock
from gateway.seldom import Seldom

LOOK_EVERY_S = 2.0

_log = logging.getLogger(__name__)


class Wing(Protocol):
    """Pages, and what works behind them."""

    asgi: ASGIApp

    def start(self) -> None:
        """Begins what it does by itself."""
        ...

    async def stop(self) -> None:
        """Ends that; idempotent."""
        ...


class Annex:
    """An ASGI application that makes its wing for the first request.

    Args:
        make: makes it; what it has to load it loads in a thread.
        awaited: whether there is work for it that began before, and that nobody may ever ask about again.
    """

    def __init__(self, make: Callable[[], Awaitable[Wing]], *, awaited: Callable[[], bool], clock: Clock) -> None:
        self._make = make
        self._awaited = awaited
        self._clock = clock
        self._wing: Wing | None = None
        self._opening = asyncio.Lock()
        self._opened = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self._complain = Seldom(_log)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        wing = await self.wing()
        await wing.asgi(scope, receive, send)

    async def wing(self) -> Wing:
        """What is behind it, made if nobody has asked yet."""
        if self._wing is None:
            async with self._opening:
                if self._wing is None:
                    self._wing = await self._make()
                    self._opened.set()
        return self._wing

    def start(self) -> None:
        """Looks from now on for work that awaits it."""
        if self._watch is None:
            self._watch = asyncio.create_task(self._look(), name="headrace-annex")

    async def stop(self) -> None:
        """Ends what works in it; idempotent."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.wait([watch])
        async with self._opening:
            if self._wing is not None:
                await self._wing.stop()

    async def _look(self) -> None:
        """Another process may have left work at any time."""
        while True:
            try:
                if self._opened.is_set() or self._awaited():
                    (await self.wing()).start()
                    return
            except Exception as error:  # noqa: BLE001  # whatever it is, nobody else would ever begin with that work
                self._complain("work that was left cannot be begun: %s in %s", type(error).__name__, place_of(error))
                await self._clock.sleep(LOOK_EVERY_S)
            else:
                await until_set(self._opened, self._clock, at_most_s=LOOK_EVERY_S)


def open_annex(house: House) -> Annex:
    """The one with all pages for clients, in which the batches are run that somebody has left."""
    return Annex(partial(_client_pages, house), awaited=partial(may_have_batches, house.settings), clock=house.clock)


async def _client_pages(house: House) -> Wing:
    # What is loaded takes a tenth of a second, in which the loop has streams to serve.
    await asyncio.to_thread(import_module, "gateway.client_pages")
    from gateway.client_pages import ClientPages  # noqa: PLC0415  # few gateways are ever asked for a page

    return ClientPages(house)
