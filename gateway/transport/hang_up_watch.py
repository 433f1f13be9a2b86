"""Flow control that hears a client leave although nothing is read from it.

An event loop learns of a hang-up by reading. While reading is paused, a client that pipelined its requests, or whose
body nobody wants yet, could leave unnoticed and be worked for in vain. Linux can say so by itself: an epoll instance of
our own waits for nothing but the hang-up of that one socket, and the loop waits for the epoll instance. Elsewhere such
a client is noticed when reading goes on, or when a write to it fails.
"""

import asyncio
import select
from collections.abc import Callable

from uvicorn.protocols.http.flow_control import FlowControl


class WatchedFlowControl(FlowControl):
    """Uvicorn's flow control of a transport; calls ``hung_up`` when the client leaves while reading is paused."""

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, hung_up: Callable[[], None]
    ) -> None:
        super().__init__(transport)
        self._loop = loop
        self._hung_up = hung_up
        self._watch: select.epoll | None = None

    def pause_reading(self) -> None:
        """Pauses, and begins to watch."""
        if not self.read_paused:
            super().pause_reading()
            self._start_watch()

    def resume_reading(self) -> None:
        """Ends the watch: the loop hears by itself."""
        if self.read_paused:
            self.stop_watch()
            super().resume_reading()

    def stop_watch(self) -> None:
        """Watches no more; idempotent."""
        if self._watch is not None:
            self._loop.remove_reader(self._watch.fileno())
            self._watch.close()
            self._watch = None

    def end(self) -> None:
        """The connection is over: nobody is called any more, nor held for it."""
        self.stop_watch()
        self._hung_up = _nobody

    def _start_watch(self) -> None:
        sock = self._transport.get_extra_info("socket")
        if sock is None or not hasattr(select, "epoll"):
            return
        self._watch = select.epoll()
        self._watch.register(sock.fileno(), select.EPOLLRDHUP)
        self._loop.add_reader(self._watch.fileno(), self._noticed)

    def _noticed(self) -> None:
        self.stop_watch()
        self._hung_up()


def _nobody() -> None:
    """In the place of who was to be called."""
