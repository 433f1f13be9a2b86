"""The client's side of one attempt: what a backend pushes goes through here to the client, as the bytes it came in.

Opening frames are kept back until there is visible output. Up to then the attempt is not ``committed`` and another
backend may take over; from then on the client has seen something, and there is no second try.
"""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from gateway.errors import UpstreamInvalid
from gateway.exchange import Exchange, RawHeaders
from gateway.ports import AT_ONCE, Clock
from gateway.price import Usage
from gateway.types import ChatRequest, Finish
from gateway.wire.format import Format, StreamView, WholeView, estimate_output

_MOST_HELD_BYTES = 64 * 1024
"""An upstream that sends more than this without saying anything is shown to the client as it is."""

HeadersFor = Callable[[Usage | None, str], RawHeaders]
"""The answer's headers; called with the usage, where it is already known as it is for whole answers, and the model."""


class Pace(Protocol):
    """Keeps the time of an attempt."""

    def waits_for_client(self, first_token_s: float | None) -> None:
        """Output has arrived and is on its way to a client who may be slow; the first at ``first_token_s``."""
        ...

    def waits_for_upstream(self) -> None:
        """The client has it; what comes next is the upstream's to send."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerBounds:
    """What an upstream may send: bytes of one event of a stream, and of one whole answer."""

    max_event_bytes: int
    max_answer_bytes: int


class ClientSink(Struct, kw_only=True, eq=False):
    """The ``Sink`` of one attempt.

    Attributes:
        request: what the client asked for.
        wire: the client's format, which is also what the backend pushes.
        exchange: where the bytes go.
        clock: stamps first and last token.
        headers: the headers of the answer.
        pace: told whom the answer waits for, so that the client's pace is never taken for the upstream's.
        bounds: what an upstream may send at most.
        prompt_tokens: of an answer that nobody counts.
        begun: whether the upstream answers.
        committed: whether the client has seen any of it.
    """

    request: ChatRequest
    wire: Format
    exchange: Exchange
    clock: Clock
    headers: HeadersFor
    pace: Pace
    bounds: AnswerBounds
    prompt_tokens: int = 0
    begun: bool = False
    committed: bool = False
    first_token_s: float | None = None
    last_token_s: float | None = None
    bursts: int = 0
    _stream: StreamView | None = None
    _whole_view: WholeView | None = None
    _whole: list[bytes] = []
    _whole_bytes: int = 0
    _held: list[bytes] = []
    _held_bytes: int = 0

    __repr__ = object.__repr__  # nobody's words are shown by mistake

    @property
    def output_bytes(self) -> int:
        """About how much text of the answer there is, so far."""
        view = self._stream or self._whole_view
        return view.output_bytes if view else 0

    @property
    def usage(self) -> Usage | None:
        """What the upstream has counted, so far."""
        return self._stream.usage if self._stream is not None else None

    @property
    def model(self) -> str:
        """What the upstream calls itself; empty as long as it has not said."""
        return self._stream.model if self._stream is not None else ""

    @property
    def complete(self) -> bool:
        """Whether the upstream has said that its answer is over."""
        return self._stream is not None and self._stream.done

    def begin(self, *, streamed: bool) -> None:
        """See ``Sink.begin``."""
        if streamed != self.request.stream:
            came, asked = ("a stream", "one answer") if streamed else ("one answer", "a stream")
            raise UpstreamInvalid(f"the backend sent {came} where {asked} was asked for")
        self.begun = True
        if streamed:
            self._stream = self.wire.stream(
                self.request,
                max_event_bytes=self.bounds.max_event_bytes,
                estimate=partial(estimate_usage, self.prompt_tokens),
            )

    def push(self, data: bytes) -> Awaitable[None]:
        """See ``Sink.push``."""
        stream = self._stream
        if stream is None:
            self._take_whole(data)
            return AT_ONCE
        out = stream.feed(data)
        if not self.committed or stream.error is not None:
            return self._open_or_fail(out, stream)
        self.last_token_s = self.clock.now_s()
        if out:
            self.bursts += 1
            written = self.exchange.write(out)
            if written is not AT_ONCE:
                return self._written(written)
        self.pace.waits_for_upstream()
        return AT_ONCE

    def end(self) -> Coroutine[Any, Any, Finish]:
        """See ``Sink.end``."""
        if self._stream is not None:
            return self._end_stream(self._stream)
        return self._end_whole(self.wire.whole(self.request))

    async def _end_whole(self, view: WholeView) -> Finish:
        self._whole_view = view
        body = view.take(b"".join(self._whole))
        self.committed = True
        self.pace.waits_for_client(None)
        finish = Finish(reason=view.finish_reason, usage=view.usage, model=view.model)
        await self.exchange.answer(200, self.headers(view.usage, view.model), body)
        return finish

    async def _end_stream(self, view: StreamView) -> Finish:
        rest = view.end()
        if rest or not self.committed:
            await self._forward(rest)
        else:
            self.last_token_s = self.clock.now_s()
        self.pace.waits_for_client(self.first_token_s)
        await self.exchange.close()
        return Finish(reason=view.finish_reason, usage=view.usage, model=view.model)

    def _take_whole(self, data: bytes) -> None:
        self._whole_bytes += len(data)
        if self._whole_bytes > self.bounds.max_answer_bytes:
            raise UpstreamInvalid(f"the answer is longer than {self.bounds.max_answer_bytes} bytes")
        self._whole.append(data)

    async def _open_or_fail(self, out: bytes, stream: StreamView) -> None:
        self._held_bytes += len(out)
        if stream.visible or self._held_bytes > _MOST_HELD_BYTES:
            await self._forward(out)
        else:
            self._held.append(out)
        if stream.error is not None:
            raise stream.error

    async def _written(self, written: Awaitable[None]) -> None:
        self.pace.waits_for_client(self.first_token_s)
        await written
        self.pace.waits_for_upstream()

    async def _forward(self, out: bytes) -> None:
        self.last_token_s = self.clock.now_s()
        if self.first_token_s is None:
            self.first_token_s = self.last_token_s
        self.pace.waits_for_client(self.first_token_s)
        if not self.committed:
            await self._commit(out)
        elif out:
            self.bursts += 1
            await self.exchange.write(out)
        self.pace.waits_for_upstream()

    async def _commit(self, out: bytes) -> None:
        self.committed = True
        self.bursts = 1
        first = b"".join((*self._held, out))
        self._held.clear()
        await self.exchange.open(200, self.headers(None, self.model))
        if first:
            await self.exchange.write(first)


def estimate_usage(prompt_tokens: int, output_bytes: int) -> Usage:
    """What an answer took that nobody counted: the prompt as forecast, the output by its length."""
    return replace(estimate_output(output_bytes), prompt_tokens=prompt_tokens)
