"""A backend that makes up its answers: for tests, demos and dry runs, where no model is wanted."""

import asyncio
from dataclasses import dataclass, field
from functools import cached_property

from backends._faults import Fault
from backends._http import Refusal, from_refusal
from backends._listed_card import ListedCard
from backends._made_up import Cutter, MadeUp, UsageAt, spoiled, words_of
from backends._made_up_media import made_up_media
from backends._models import Models, listed
from gateway.conversation import prompt_count
from gateway.errors import UpstreamError, UpstreamFailed, UpstreamTruncated, UpstreamUnreachable
from gateway.facts import BackendFacts, Concurrency, ModelFacts
from gateway.ports import PassingSink, Sink, Surroundings
from gateway.price import Usage
from gateway.types import Call, Finish, Operation
from gateway.wire.anthropic_count import count_body, push_whole
from gateway.wire.hub import EMBEDDED, TRANSLATED, as_chat
from gateway.wire.openai_errors import error_body
from gateway.wire.own_answers import loaded

_BYTES_PER_TOKEN = 4


@dataclass(slots=True)
class _Calls:
    """What the fake remembers of its calls."""

    name: str = ""
    world: Surroundings | None = None
    opened: int = 0
    closed: int = 0


@dataclass(frozen=True, kw_only=True)
class Fake:
    """Answers with a fixed text, in real wire bytes, at a given pace and with scripted faults.

    One token is one word of ``text``. Prompt tokens are counted as a quarter of the prompt's bytes. ``max_tokens``,
    ``n`` and ``continue_final_message`` (as many words are taken as said as the last message has) are obeyed; of
    everything else in the request nothing changes the answer.

    Example::

        backends:
          slow:
            use: fake
            text: The quick brown fox jumps over the lazy dog.
            first_token_s: 0.3
            seconds_per_token: 0.05
            models: {fox: {context_tokens: 8192, price: {input_usd_per_mtok: 1, output_usd_per_mtok: 4}}}
          moody:
            use: fake
            fail: [null, {kind: status, status: 429, retry_after_s: 2}, {kind: cut, after_chunks: 3}]
            repeat: true

    Attributes:
        text: The answer.
        tokens: Its length; the words of ``text`` begin anew until it is reached. Left out: as long as ``text``.
        first_token_s: From the request to the first byte.
        seconds_per_token: Between tokens.
        chunk_bytes: Re-cuts the stream into pieces of this size, across events and characters; 0 for one event a piece.
        usage: Whether the answer says its token counts: ``given`` after all choices, ``in_last_chunk`` together with
            the last finish reason, as some providers do, or ``missing``.
        fail: What goes wrong in the first call, the second and so on; ``null`` for nothing.
        repeat: Whether ``fail`` begins anew after its end; otherwise all is well from there on.
        models: Names, or names with ``context_tokens``, ``capabilities``, ``price`` and ``card``.
        operations: ``chat``, ``completion``, ``embedding``; all unless given. An embedding is always the same vector.
        concurrency: How many requests it says it serves at once, or ``{adaptive: {}}``.
        card: What it says of how it computes its models, as for ``openai_compatible``.
    """

    text: str = "This answer is made up."
    tokens: int | None = None
    first_token_s: float = 0.0
    seconds_per_token: float = 0.0
    chunk_bytes: int = 0
    usage: UsageAt = "given"
    fail: tuple[Fault | None, ...] = ()
    repeat: bool = False
    models: Models = ("fake",)
    operations: frozenset[Operation] = frozenset(Operation)
    concurrency: Concurrency = None
    card: ListedCard | None = None
    _calls: _Calls = field(init=False, repr=False, compare=False, default_factory=_Calls)

    def __post_init__(self) -> None:
        for name in ("first_token_s", "seconds_per_token", "chunk_bytes"):
            if getattr(self, name) < 0:
                raise ValueError(f"`{name}` must not be negative")
        if not self.text.split():
            raise ValueError("`text` must have a word")
        if self.tokens is not None and self.tokens < 1:
            raise ValueError("`tokens` must be at least 1")
        listed(self.models)

    @property
    def open_calls(self) -> int:
        """Calls that were begun, ever."""
        return self._calls.opened

    @property
    def closed_calls(self) -> int:
        """Calls that are over, however they ended; those that were cancelled too."""
        return self._calls.closed

    async def start(self, name: str, world: Surroundings) -> None:
        """See ``Backend.start``."""
        self._calls.name, self._calls.world = name, world

    async def send(self, call: Call, sink: Sink) -> Finish:
        """See ``Backend.send``."""
        fault = self._fault(self._calls.opened)
        self._calls.opened += 1
        try:
            return await self._send(call, sink, fault)
        except UpstreamError as error:
            error.backend = error.backend or self._calls.name
            raise
        finally:
            self._calls.closed += 1

    def facts(self) -> BackendFacts:
        """See ``Backend.facts``."""
        return self._facts

    async def close(self) -> None:
        """See ``Backend.close``."""
        self._calls.world = None

    async def _send(self, call: Call, sink: Sink, fault: Fault | None) -> Finish:
        world, kind = await self._reach(fault), fault.kind if fault else None
        if call.request.arrival.operation is Operation.COUNT_TOKENS:
            return await push_whole(sink, count_body(_prompt_tokens(call)))
        if (own := loaded(call)) is not None:
            return await push_whole(sink, own)
        if call.request.units is not None:
            return await self._pass_on(call, sink, fault, world)
        call, sink = as_chat(call, sink)
        streamed = call.request.stream
        sink.begin(streamed=streamed)
        answer, cutter = self._answer(call, int(world.clock.unix_s())), Cutter(self.chunk_bytes)
        pieces = answer.events() if streamed else answer.halves()
        for number, piece in enumerate(spoiled(pieces, fault, streamed=streamed)):
            await self._wait(world, self.seconds_per_token if number else 0)
            for cut in cutter.feed(piece):
                await sink.push(cut)
        for cut in cutter.rest():
            await sink.push(cut)
        if kind == "stall":
            await asyncio.Event().wait()
        if kind == "reset" and not streamed:
            raise UpstreamTruncated("the connection broke in the middle of the answer")
        return await sink.end()

    async def _pass_on(self, call: Call, sink: Sink, fault: Fault | None, world: Surroundings) -> Finish:
        """An answer that is no text, as it comes."""
        if not isinstance(sink, PassingSink):
            raise TypeError("this sink takes no answer as it comes")
        media = made_up_media(call, self.text)
        sink.pass_on([("content-type", media.content_type)])
        for number, piece in enumerate(spoiled(media.pieces, fault, streamed=call.request.stream)):
            await self._wait(world, self.seconds_per_token if number else 0)
            await sink.push(piece)
        if fault and fault.kind == "stall":
            await asyncio.Event().wait()
        if fault and fault.kind == "reset" and not call.request.stream:
            raise UpstreamTruncated("the connection broke in the middle of the answer")
        return await sink.end()

    async def _reach(self, fault: Fault | None) -> Surroundings:
        """What happens before an answer: it takes its time, or there is none."""
        world, kind = self._calls.world, fault.kind if fault else None
        if world is None:
            raise UpstreamUnreachable("the backend is closed")
        if kind == "refuse":
            raise UpstreamUnreachable("no connection to the upstream: connection refused")
        await self._wait(world, self.first_token_s)
        if kind == "hang":
            await asyncio.Event().wait()
        if fault and kind == "status":
            body = error_body(UpstreamFailed("this error is made up", upstream_code=fault.code))
            raise from_refusal(Refusal(status=fault.status, body=body, retry_after_s=fault.retry_after_s), ())
        return world

    def _answer(self, call: Call, created_unix_s: int) -> MadeUp:
        request = call.request
        embeds = request.arrival.operation is Operation.EMBEDDING
        said = _words_said(call)
        wanted = max((self.tokens or len(self.text.split())) - said, 0)
        allowed = wanted if request.max_tokens is None else min(wanted, request.max_tokens)
        return MadeUp(
            operation=request.arrival.operation,
            id=f"fake-{request.arrival.id}",
            model=call.model,
            created_unix_s=created_unix_s,
            words=words_of(self.text, said + allowed)[said:],
            reason="stop" if allowed == wanted else "length",
            n=prompt_count(request.prompt) if embeds else request.n,
            usage=Usage(prompt_tokens=_prompt_tokens(call), output_tokens=allowed * request.n),
            usage_at=self.usage,
        )

    async def _wait(self, world: Surroundings, seconds: float) -> None:
        if seconds > 0:
            await world.clock.sleep(seconds)

    def _fault(self, number: int) -> Fault | None:
        if not self.fail or (number >= len(self.fail) and not self.repeat):
            return None
        return self.fail[number % len(self.fail)]

    @cached_property
    def _facts(self) -> BackendFacts:
        return BackendFacts(
            models=listed(self.models, unsaid=ModelFacts(card=self.card)),
            operations=self.operations,
            translates=self.operations & (TRANSLATED | EMBEDDED),
        ).taking(self.concurrency)


def _prompt_tokens(call: Call) -> int:
    return max(call.request.prompt_bytes // _BYTES_PER_TOKEN, 1)


def _words_said(call: Call) -> int:
    """How many words of the answer the request already has, where it is to be gone on with."""
    continues = bytes(call.request.raw.get("continue_final_message", b"")) == b"true"
    return len(call.request.messages[-1].text().split()) if continues else 0
