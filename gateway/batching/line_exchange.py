"""The exchange of a batch's line: nobody is connected, and what is answered is kept."""

from collections.abc import Sequence

from gateway.exchange import RawHeaders
from gateway.types import Operation


class LineExchange:
    """See ``gateway.exchange.Exchange``. ``gone`` is set by who wants the line no more, and then cancels its task."""

    started = False
    streaming = False

    def __init__(self, operation: Operation, headers: RawHeaders, body: bytes) -> None:
        self.operation = operation
        self.headers = headers
        self.gone = False
        self.status = 0
        self.answer_headers: RawHeaders = ()
        self._body = body
        self._pieces: list[bytes] = []

    @property
    def answered(self) -> bytes:
        """The answer's body."""
        return b"".join(self._pieces)

    def header(self, name: bytes) -> str:
        """One of the answer's headers; empty where there is none."""
        return next((value.decode("latin-1") for known, value in self.answer_headers if known == name), "")

    async def body(self) -> bytes:
        """The request's."""
        return self._body

    async def answer(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """See ``Exchange.answer``."""
        self._begin(status, headers, [body])

    async def open(self, status: int, headers: RawHeaders) -> None:
        """See ``Exchange.open``: an upstream may stream what nobody asked it to."""
        self._begin(status, headers, ())

    async def write(self, data: bytes) -> None:
        """See ``Exchange.write``."""
        self._pieces.append(data)

    async def close(self) -> None:
        """See ``Exchange.close``."""

    def _begin(self, status: int, headers: RawHeaders, pieces: Sequence[bytes]) -> None:
        self.status, self.answer_headers, self._pieces = status, headers, list(pieces)
