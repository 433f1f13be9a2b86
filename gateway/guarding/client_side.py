"""What a client has seen of a guarded answer, and how it is shown more of it."""

from http import HTTPStatus

from gateway.exchange import Exchange, RawHeaders
from gateway.guarding.hearing import Hearing
from gateway.guarding.told import with_marks

_MOST_PENDING_BYTES = 16 * 1024
"""An answer that sends more than this without a word of text is shown as it comes."""


class ClientSide:
    """``shown`` tells whether it has seen anything; ``cut`` whether its stream was ended before its own end.

    The opening of a stream waits for the first text that passes: until then what goes wrong can still be told by an
    HTTP status, and another backend can take over.
    """

    __slots__ = ("_exchange", "_headers", "_hearing", "_pending", "_pending_bytes", "_status", "cut", "shown")

    def __init__(self, exchange: Exchange, hearing: Hearing) -> None:
        self.shown = False
        self.cut = False
        self._exchange = exchange
        self._hearing = hearing
        self._status: int = HTTPStatus.OK
        self._headers: RawHeaders = ()
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    @property
    def streaming(self) -> bool:
        """Whether more of a stream can be shown."""
        return self.shown and self._exchange.streaming

    def begin(self, status: int, headers: RawHeaders) -> None:
        """A stream begins; one that nobody has seen is forgotten."""
        self._status, self._headers = status, headers
        self._pending.clear()
        self._pending_bytes = 0

    async def answer(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """Shows a whole answer."""
        self.shown = True
        await self._exchange.answer(status, with_marks(headers, self._hearing.marks), body)

    async def show(self, data: bytes, *, opens: bool) -> None:
        """Shows more of a stream; what does not ``open`` it waits until something does."""
        self._pending.append(data)
        if not self.shown:
            self._pending_bytes += len(data)
            if not opens and self._pending_bytes <= _MOST_PENDING_BYTES:
                return
            self.shown = True
            await self._exchange.open(self._status, with_marks(self._headers, self._hearing.marks))
        data = b"".join(self._pending)
        self._pending.clear()
        if data:
            await self._exchange.write(data)

    async def close(self) -> None:
        """The stream is over."""
        await self.show(b"", opens=True)
        await self._exchange.close()

    async def cut_off(self, ending: bytes) -> None:
        """Ends a stream that was shown in part; one that was not is left to who tells errors."""
        if self.streaming:
            self.cut = True
            await self._exchange.write(ending)
            await self._exchange.close()
