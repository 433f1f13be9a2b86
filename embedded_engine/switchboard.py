"""The engine's end of its connections, called lines: one that it was given, or many that come to a listening socket.

Requests have numbers of their caller's own. Within the engine the line is part of the number (`number //
IDS_PER_LINE`), so that two callers' requests never meet, and an event finds its way back by its number alone. A line
that does not read holds nobody up: what it does not take waits, bounded, and then the line is dropped.
"""

import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import Protocol, TypeVar

import msgspec

from embedded_engine.frames import FrameReader, ProtocolError, decode_to_engine, frame
from embedded_engine.messages import (
    Accepted,
    Cancel,
    Check,
    Counted,
    CountTokens,
    Done,
    Echo,
    Embed,
    Embedded,
    Facts,
    Failed,
    FromEngine,
    Generate,
    Leave,
    Ping,
    Text,
    ToEngine,
)

__all__ = ["IDS_PER_LINE", "MAX_LINES", "MAX_UNSENT_BYTES", "Event", "Receiver", "Switchboard"]

IDS_PER_LINE = 2**40
MAX_LINES = 256
MAX_UNSENT_BYTES = 4 * 1024 * 1024

_RECEIVE_BYTES = 65536
_logger = logging.getLogger(__name__)

Request = Generate | Embed | CountTokens | Check | Cancel
Event = Accepted | Echo | Text | Done | Failed | Counted | Embedded
_Numbered = TypeVar("_Numbered", bound=Request | Event)


class Receiver(Protocol):
    """Takes what comes in, on the switchboard's thread."""

    def greeting(self) -> Sequence[FromEngine]:
        """What a new line is told first."""
        ...

    def take(self, message: Request) -> None:
        """A message, its number made unique. Never raises."""
        ...

    def pinged(self) -> None:
        """Somebody wants to hear facts."""
        ...

    def hung_up(self, line: int) -> None:
        """A line is gone, with all its requests."""
        ...


class _Line:
    """One connection. Reading is for the switchboard's thread, writing for any."""

    def __init__(self, number: int, connection: socket.socket, wake: Callable[[], None]) -> None:
        connection.setblocking(False)  # noqa: FBT003  # the socket module's signature
        self.number = number
        self.connection = connection
        self.frames = FrameReader()
        self.left = False
        self._wake = wake
        self._unsent = bytearray()
        self._writing = threading.Lock()

    @property
    def stuck(self) -> bool:
        """Whether something waits to be sent."""
        return bool(self._unsent)

    def write(self, data: bytes) -> None:
        """Send what the socket takes now; the rest waits for `flush`."""
        with self._writing:
            if self._unsent:
                self._unsent += data
                if len(self._unsent) > MAX_UNSENT_BYTES:
                    self._break_off()
                return
            self._unsent += data[self._send(data) :]
        if self._unsent:
            self._wake()

    def flush(self) -> None:
        """Send more of what waits."""
        with self._writing:
            del self._unsent[: self._send(self._unsent)]

    def _send(self, data: bytes | bytearray) -> int:
        try:
            return self.connection.send(data)
        except BlockingIOError:
            return 0
        except OSError:  # it broke: reading finds out, too, and clears up
            return len(data)

    def _break_off(self) -> None:
        self._unsent.clear()
        with suppress(OSError):  # it may be gone already
            self.connection.shutdown(socket.SHUT_RDWR)  # reading finds the end, and clears up


class Switchboard:
    """All lines. `send` may be called from any thread; `listen` never returns and has a thread of its own.

    Args:
        own: The only line there will ever be, or None.
        listening: Where lines come to, or None.
        grace_s: How long to wait for somebody after the last line broke: a process that died may come again.
    """

    def __init__(
        self, *, own: socket.socket | None = None, listening: socket.socket | None = None, grace_s: float = 3.0
    ) -> None:
        self._grace_s = grace_s
        self._selector = selectors.DefaultSelector()
        self._ears, self._mouth = socket.socketpair()
        self._ears.setblocking(False)  # noqa: FBT003  # the socket module's signature
        self._mouth.setblocking(False)  # noqa: FBT003  # likewise
        self._selector.register(self._ears, selectors.EVENT_READ)
        self._own = own
        self._listening = listening
        if listening is not None:
            listening.setblocking(False)  # noqa: FBT003  # likewise
            self._selector.register(listening, selectors.EVENT_READ)
        self._lines: dict[int, _Line] = {}
        self._lines_so_far = 0
        self._end_at_s = time.monotonic() + grace_s

    def send(self, events: Sequence[Event], facts: Sequence[Facts] = ()) -> None:
        """Send each event to the line that asked, and facts to all. What is for a line that is gone is dropped."""
        frames: dict[int, list[bytes]] = {}
        for event in events:
            line, number = divmod(event.id, IDS_PER_LINE)
            frames.setdefault(line, []).append(frame(_numbered(event, number)))
        for fact in facts:
            for line in tuple(self._lines):  # copied in one step: the other thread may change it
                frames.setdefault(line, []).append(frame(fact))
        for number, parts in frames.items():
            if (to := self._lines.get(number)) is not None:
                to.write(b"".join(parts))

    def refuse(self, message: FromEngine) -> None:
        """Tell everybody who is there, instead of listening."""
        while (connection := self._next_connection()) is not None:
            with connection, suppress(OSError):  # it may be gone already
                connection.sendall(frame(message))

    def listen(self, receiver: Receiver) -> int:
        """Take what comes in, until the last line has gone; returns the exit code of the process."""
        with closing(self._selector), self._ears, self._mouth:
            if self._own is not None:
                self._open(self._own, receiver)
            while True:
                keys = self._selector.select(None if self._lines else max(0.0, self._end_at_s - time.monotonic()))
                for key, events in keys:
                    self._attend(key, events, receiver)
                if not keys and not self._lines and time.monotonic() >= self._end_at_s:
                    return 0

    def _attend(self, key: selectors.SelectorKey, events: int, receiver: Receiver) -> None:
        if key.fileobj is self._ears:
            self._ears.recv(_RECEIVE_BYTES)
            self._watch_stuck_lines()
        elif key.fileobj is self._listening:
            if (connection := self._next_connection()) is not None:
                self._open(connection, receiver)
        else:
            line: _Line = key.data
            if events & selectors.EVENT_WRITE:
                line.flush()
                if not line.stuck:
                    self._selector.modify(line.connection, selectors.EVENT_READ, line)
            if events & selectors.EVENT_READ:
                self._hear(line, receiver)

    def _next_connection(self) -> socket.socket | None:
        if self._listening is None:
            own, self._own = self._own, None
            return own
        try:
            return self._listening.accept()[0]
        except OSError:  # nobody, or somebody who thought better of it
            return None

    def _open(self, connection: socket.socket, receiver: Receiver) -> None:
        if len(self._lines) >= MAX_LINES:
            connection.close()
            return
        line = _Line(self._lines_so_far, connection, self._wake)
        self._lines_so_far += 1
        self._selector.register(connection, selectors.EVENT_READ, line)
        line.write(b"".join(map(frame, receiver.greeting())))
        self._lines[line.number] = line

    def _hear(self, line: _Line, receiver: Receiver) -> None:
        try:
            chunk = line.connection.recv(_RECEIVE_BYTES)
            for body in line.frames.feed(chunk):
                self._take(line, decode_to_engine(body), receiver)
        except BlockingIOError:
            return
        except (OSError, ProtocolError) as error:
            _logger.warning("line %d broke: %s", line.number, error)
            chunk = b""
        if not chunk:
            self._close(line, receiver)

    def _take(self, line: _Line, message: ToEngine, receiver: Receiver) -> None:
        if isinstance(message, Leave):
            line.left = True
        elif isinstance(message, Ping):
            receiver.pinged()
        elif 0 <= message.id < IDS_PER_LINE:
            receiver.take(_numbered(message, line.number * IDS_PER_LINE + message.id))
        else:
            raise ProtocolError(f"a request cannot have the number {message.id}")

    def _close(self, line: _Line, receiver: Receiver) -> None:
        self._selector.unregister(line.connection)
        line.connection.close()
        del self._lines[line.number]
        receiver.hung_up(line.number)
        patience_s = 0.0 if line.left or self._listening is None else self._grace_s
        self._end_at_s = time.monotonic() + patience_s

    def _watch_stuck_lines(self) -> None:
        for line in self._lines.values():
            if line.stuck:
                self._selector.modify(line.connection, selectors.EVENT_READ | selectors.EVENT_WRITE, line)

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # it is being woken already
            self._mouth.send(b"\0")


def _numbered(message: _Numbered, number: int) -> _Numbered:
    return message if message.id == number else msgspec.structs.replace(message, id=number)
