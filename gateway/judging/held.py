"""The client's exchange while an answer waits for its judgement: nothing of it goes out before ``release``.

A stream that is held may be kept alive: its status line goes out, then a comment from time to time, which every reader
of server-sent events ignores, or a line of Ollama's that says nothing. The answer's own headers cannot follow then;
``x-headrace-cascade: held`` says so.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping

from gateway.errors import ClientGone, UpstreamError
from gateway.exchange import Exchange, RawHeaders
from gateway.judging.overheard import Kept
from gateway.types import Operation, Status

_OK = 200
_COMMENT = b": held until it is judged\n\n"
_LINES: Mapping[Operation, bytes] = {
    Operation.OLLAMA_CHAT: b'{"message":{"role":"assistant","content":""},"done":false}\n',
    Operation.OLLAMA_GENERATE: b'{"response":"","done":false}\n',
}
"""What stands for a comment where there are none."""

Sleep = Callable[[float], Awaitable[None]]


class TooLongToHold(UpstreamError):
    """An answer longer than what a cascade may hold: nobody judges it, and the next step answers."""

    status = Status.REJECTED
    code = "too_long_to_hold"
    retryable = False
    blames_backend = False


class Held:
    """See ``gateway.exchange.Exchange``.

    An answer that grows beyond ``most_bytes`` is let go where ``serves_unsure``, and is ``TooLongToHold`` where not.
    ``opening`` are the headers of a stream that is opened before its answer is known. ``shown_s`` is when the answer
    began to go out, on the clock of ``now_s``.
    """

    def __init__(self, exchange: Exchange, opening: RawHeaders, now_s: Callable[[], float]) -> None:
        self.operation: Operation = exchange.operation
        self.headers: RawHeaders = exchange.headers
        self.kept = Kept(0)
        self.shown_s: float | None = None
        self._now_s = now_s
        self._exchange = exchange
        self._opening = opening
        self._serves_unsure = False
        self._holding = False
        self._shown = False
        self._status = _OK
        self._answer_headers: RawHeaders = ()
        self._streamed = False
        self._comments: asyncio.Task[None] | None = None

    @property
    def gone(self) -> bool:
        """See ``Exchange.gone``."""
        return self._exchange.gone

    @property
    def started(self) -> bool:
        """Whether the client has seen anything of an answer; comments are none."""
        return self._shown

    @property
    def streaming(self) -> bool:
        """See ``Exchange.streaming``."""
        return self._shown and self._exchange.streaming

    @property
    def holding(self) -> bool:
        """Whether an answer is held back now."""
        return self._holding

    def hold(self, *, most_bytes: int, serves_unsure: bool) -> None:
        """From now on what comes is held, and what was held is forgotten."""
        self.kept = Kept(most_bytes)
        self._serves_unsure = serves_unsure
        self._holding = True

    def let_through(self) -> None:
        """From now on what comes goes out; what was held is forgotten."""
        self._holding = False
        self.kept = Kept(0)

    def keep_alive(self, every_s: float, sleep: Sleep) -> None:
        """Sends a comment ``every_s`` until the answer itself goes out; for streams alone."""
        if self._comments is None:
            self._comments = asyncio.get_running_loop().create_task(self._comment(every_s, sleep), name="headrace-held")

    async def quiet(self) -> None:
        """Ends the comments; idempotent."""
        comments, self._comments = self._comments, None
        if comments is not None:
            comments.cancel()
            await asyncio.wait([comments])

    async def release(self) -> None:
        """What was held goes out as it came."""
        self._holding = False
        held = self.kept.bytes
        if not self._streamed:
            await self._answer(self._status, self._answer_headers, held)
            return
        await self._open(self._status, self._answer_headers)
        if held:
            await self._exchange.write(held)

    async def release_all(self) -> None:
        """What was held goes out, and it was all."""
        await self.release()
        if self._streamed:
            await self._exchange.close()

    async def body(self) -> bytes:
        """See ``Exchange.body``."""
        return await self._exchange.body()

    async def answer(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """See ``Exchange.answer``."""
        self._begin(status, headers, streamed=False)
        if not self._holding:
            await self._answer(status, headers, body)
        elif len(body) <= self.kept.most_bytes:
            self.kept.take(body)
        else:
            self._let_go()
            await self._answer(status, headers, body)

    async def open(self, status: int, headers: RawHeaders) -> None:
        """See ``Exchange.open``."""
        self._begin(status, headers, streamed=True)
        if not self._holding:
            await self._open(status, headers)

    async def write(self, data: bytes) -> None:
        """See ``Exchange.write``."""
        if not self._holding:
            await self._exchange.write(data)
        elif self.kept.length_bytes + len(data) <= self.kept.most_bytes:
            self.kept.take(data)
        else:
            self._let_go()
            await self.release()
            await self._exchange.write(data)

    async def close(self) -> None:
        """See ``Exchange.close``."""
        if not self._holding:
            await self._exchange.close()

    def _begin(self, status: int, headers: RawHeaders, *, streamed: bool) -> None:
        self._status, self._answer_headers, self._streamed = status, headers, streamed
        self.kept.begin(streamed=streamed)

    def _let_go(self) -> None:
        if not self._serves_unsure:
            raise TooLongToHold(f"the answer is longer than {self.kept.most_bytes} bytes, and cannot be judged")
        self._holding = False

    def _show(self) -> None:
        self._shown = True
        self.shown_s = self._now_s()

    async def _answer(self, status: int, headers: RawHeaders, body: bytes) -> None:
        self._show()
        await self._exchange.answer(status, headers, body)

    async def _open(self, status: int, headers: RawHeaders) -> None:
        await self.quiet()
        self._show()
        if not self._exchange.started:
            await self._exchange.open(status, headers)

    async def _comment(self, every_s: float, sleep: Sleep) -> None:
        with contextlib.suppress(ClientGone):  # whoever serves the request is told so, too
            while True:
                await sleep(every_s)
                if not self._exchange.started:
                    await self._exchange.open(_OK, self._opening)
                await self._exchange.write(_LINES.get(self.operation, _COMMENT))
