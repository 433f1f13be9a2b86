"""The client's exchange as judges overhear it: what goes to the client is kept, up to a bound, and read afterwards."""

from collections.abc import Awaitable
from functools import partial
from http import HTTPStatus

from msgspec.structs import replace

from gateway.exchange import Exchange, RawHeaders, Through
from gateway.judgement import Answer, Judgement, cannot_say
from gateway.price import Usage
from gateway.types import Operation
from gateway.wire.answers import read_answer

MOST_KEPT_BYTES = 256 * 1024
"""Of an answer that is judged after it was served; a longer one is not judged."""


class Kept:
    """The bytes of one answer, ``too_long`` where they were more than ``most_bytes``: then none are kept."""

    __slots__ = ("_pieces", "_streamed", "length_bytes", "most_bytes", "too_long")

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.length_bytes = 0
        self.too_long = False
        self._streamed = False
        self._pieces: list[bytes] = []

    def begin(self, *, streamed: bool) -> None:
        """An answer begins; one before it is forgotten."""
        self._pieces, self.length_bytes, self.too_long, self._streamed = [], 0, False, streamed

    def take(self, data: bytes) -> None:
        """Keeps a piece."""
        self.length_bytes += len(data)
        if self.length_bytes > self.most_bytes:
            self.too_long = True
            self._pieces = []
        if not self.too_long:
            self._pieces.append(data)

    @property
    def not_judged(self) -> Judgement:
        """What is said of an answer that is too long."""
        return cannot_say(f"the answer is longer than {self.most_bytes} bytes")

    @property
    def bytes(self) -> bytes:
        """All of it."""
        return b"".join(self._pieces)

    def reader(self, operation: Operation, usage: Usage | None) -> "partial[Answer | None]":
        """Reads the answer when it is called, on whatever thread; ``usage`` is what is known of its tokens."""
        return partial(_read, operation, self.bytes, self._streamed, usage)


def _read(operation: Operation, data: bytes, streamed: bool, usage: Usage | None) -> Answer | None:  # noqa: FBT001  # private
    answer = read_answer(operation, data, streamed=streamed)
    return answer if answer is None or usage is None else replace(answer, usage=usage)


class Overheard(Through):
    """Everything goes through as it comes, and successes are ``kept``."""

    __slots__ = ("kept",)

    def __init__(self, exchange: Exchange, *, most_bytes: int = MOST_KEPT_BYTES) -> None:
        super().__init__(exchange)
        self.kept = Kept(most_bytes)

    async def answer(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """See ``Exchange.answer``."""
        if status == HTTPStatus.OK:
            self.kept.begin(streamed=False)
            self.kept.take(body)
        await self._exchange.answer(status, headers, body)

    async def open(self, status: int, headers: RawHeaders) -> None:
        """See ``Exchange.open``."""
        self.kept.begin(streamed=True)
        await self._exchange.open(status, headers)

    def write(self, data: bytes) -> Awaitable[None]:
        """See ``Exchange.write``."""
        self.kept.take(data)
        return self._exchange.write(data)


class Unheard:
    """An exchange with nobody at its other end: what is answered is ``kept``, and shown to nobody."""

    gone = False
    started = False
    streaming = False

    def __init__(self, operation: Operation, *, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self.operation = operation
        self.headers: RawHeaders = ()
        self.kept = Kept(most_bytes)

    async def body(self) -> bytes:
        """There is none."""
        return b""

    async def answer(self, status: int, headers: RawHeaders, body: bytes) -> None:  # noqa: ARG002  # the port's signature
        """See ``Exchange.answer``."""
        self.kept.begin(streamed=False)
        self.kept.take(body)

    async def open(self, status: int, headers: RawHeaders) -> None:  # noqa: ARG002  # the port's signature
        """See ``Exchange.open``."""
        self.kept.begin(streamed=True)

    async def write(self, data: bytes) -> None:
        """See ``Exchange.write``."""
        self.kept.take(data)

    async def close(self) -> None:
        """See ``Exchange.close``."""
