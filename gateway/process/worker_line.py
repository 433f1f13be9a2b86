"""What a worker and its parent have to say to each other: one byte a word, over a socket pair.

The parent's words are not signals: a terminal or a service manager may send a signal to all processes, and a worker
that got it from them as well as from its parent would take it for the second one, which means *now*. And the line's end
tells each that the other is gone.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping

import msgspec

SERVING = b"s"
"""The worker's only word: it has begun to listen."""
DRAIN = b"d"
END_NOW = b"e"
RELOAD = b"r"
NOT_STARTED = 3
"""A worker's exit code, and its parent's, that could not begin to serve."""


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is told when it starts, as JSON on its command line; descriptors are inherited.

    Attributes:
        worker: Its number, from 0.
        run_dir: The directory that it shares with its siblings.
        lock: The descriptor of that directory's lock.
        line: The descriptor of its end of the line to its parent.
        listening: Those of the sockets that it listens on.
    """

    worker: int
    run_dir: str
    lock: int
    line: int
    listening: tuple[int, ...]

    def sockets(self) -> list[socket.socket]:
        """The sockets to listen on; to be called once."""
        return [socket.socket(fileno=descriptor) for descriptor in self.listening]


class ParentLine(asyncio.Protocol):
    """The worker's end of the line.

    Args:
        words: What to do at each of the parent's words.
        gone: What to do when the parent is no more.
    """

    def __init__(self, words: Mapping[bytes, Callable[[], None]], gone: Callable[[], None]) -> None:
        self._words = words
        self._gone: Callable[[], None] | None = gone
        self._transport: asyncio.WriteTransport | None = None

    async def open(self, descriptor: int) -> None:
        """Says that the worker serves, and hears from now on; what was said before is heard, too."""
        line = socket.socket(fileno=descriptor)
        transport, _ = await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=line)
        self._transport = transport
        transport.write(SERVING)

    def close(self) -> None:
        """Hangs up; idempotent."""
        self._gone = None
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        """What asyncio calls: the parent said something."""
        for word in data:
            self._words[bytes((word,))]()

    def connection_lost(self, exc: Exception | None) -> None:
        """What asyncio calls: the line has ended."""
        del exc
        if self._gone is not None:
            self._gone()
