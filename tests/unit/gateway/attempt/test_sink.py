import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.attempt.sink import AnswerBounds, ClientSink
from gateway.errors import UpstreamFailed, UpstreamInvalid, UpstreamTruncated
from gateway.price import Usage
from gateway.types import Call, Operation
from gateway.wire.formats import FORMATS
from gateway.wire.openai_answer import Answered, StreamWriter, whole_answer

CHAT = StreamWriter(Operation.CHAT, "id-1", "m", 0)
OPENING, HELLO, FINISH, DONE = CHAT.opening(0), CHAT.text(0, "Hello"), CHAT.finish(0, "stop"), CHAT.done()
WHOLE = whole_answer(
    Operation.CHAT, "id-1", "m", 0, [Answered("Hello there", "stop")], Usage(prompt_tokens=3, output_tokens=2)
)


@dataclass
class Notes:
    """A pace that notes whom the answer waits for."""

    waits: list[str] = field(default_factory=list)

    def waits_for_client(self, first_token_s: float | None) -> None:  # noqa: ARG002  # the port's signature
        """Notes it."""
        self.waits.append("client")

    def waits_for_upstream(self) -> None:
        """Notes it."""
        self.waits.append("upstream")


@dataclass
class Scene:
    """A sink, and what is around it."""

    sink: ClientSink
    exchange: Any
    pace: Notes
    asked_headers: list[Usage | None]


@pytest.fixture
def scene(make_call: Callable[..., Call], make_exchange: Any, clock: Any) -> Callable[..., Scene]:
    """Makes the sink of one attempt."""

    def make(*, stream: bool, max_event_bytes: int = 1 << 20, max_answer_bytes: int = 1 << 20) -> Scene:
        exchange, pace, asked = make_exchange(), Notes(), []

        def headers(usage: Usage | None, _: str) -> list[tuple[bytes, bytes]]:
            asked.append(usage)
            return [(b"x-test", b"1")]

        sink = ClientSink(
            request=make_call(stream=stream).request,
            wire=FORMATS[Operation.CHAT],
            exchange=exchange,
            clock=clock,
            headers=headers,
            pace=pace,
            bounds=AnswerBounds(max_event_bytes=max_event_bytes, max_answer_bytes=max_answer_bytes),
        )
        return Scene(sink, exchange, pace, asked)

    return make


@pytest.mark.parametrize(
    ("asked", "came", "words"),
    [(True, False, "one answer where a stream was asked for"), (False, True, "a stream where one answer was")],
)
def test_the_other_kind_of_answer_is_none(scene: Any, asked: bool, came: bool, words: str) -> None:
    """A backend that streams unasked, or does not when asked, is at fault before anything is sent."""
    made = scene(stream=asked)
    with pytest.raises(UpstreamInvalid, match=words):
        made.sink.begin(streamed=came)
    assert not made.sink.begun
    assert [] == made.exchange.calls


async def test_a_sink_shows_no_words_by_mistake(scene: Any) -> None:
    """What a log or an error may say of it is neither the request nor what is held of the answer."""
    made = scene(stream=False)
    made.sink.begin(streamed=False)
    await made.sink.push(b'{"secret": 1}')
    assert "secret" not in repr(made.sink)
    assert "messages" not in repr(made.sink)


async def test_opening_frames_are_held_until_something_is_visible(scene: Any) -> None:
    """Until then another backend may take over, and the client must not have seen a preamble twice."""
    made = scene(stream=True)
    made.sink.begin(streamed=True)
    await made.sink.push(OPENING)
    await made.sink.push(OPENING)
    assert (False, [], None) == (made.sink.committed, made.exchange.calls, made.sink.first_token_s)
    await made.sink.push(HELLO)
    assert (True, ["open", "write"]) == (made.sink.committed, made.exchange.calls)
    assert OPENING * 2 + HELLO == made.exchange.received
    assert (200, {"x-test": "1"}, [None]) == (made.exchange.status, made.exchange.answer_headers, made.asked_headers)


async def test_a_stream_goes_through_as_it_came(scene: Any, clock: Any) -> None:
    """Bytes are not changed, the end is said once, and first and last token are stamped."""
    made = scene(stream=True)
    made.sink.begin(streamed=True)
    for piece in (OPENING, HELLO, HELLO, FINISH):
        clock.now += 1
        await made.sink.push(piece)
    assert not made.sink.complete
    await made.sink.push(DONE)
    assert made.sink.complete
    finish = await made.sink.end()
    assert OPENING + HELLO * 2 + FINISH + DONE == made.exchange.received
    assert ("close", False) == (made.exchange.calls[-1], made.exchange.streaming)
    assert ("stop", None, "m") == (finish.reason, finish.usage, finish.model)
    assert (1002.0, 1004.0) == (made.sink.first_token_s, made.sink.last_token_s)
    assert 10 == made.sink.output_bytes


async def test_an_answer_without_a_word_is_an_answer(scene: Any) -> None:
    """A stream that only opens and finishes is committed at its end at the latest."""
    made = scene(stream=True)
    made.sink.begin(streamed=True)
    for piece in (OPENING, FINISH, DONE):
        await made.sink.push(piece)
    await made.sink.end()
    assert OPENING + FINISH + DONE == made.exchange.received
    assert 1 == made.exchange.calls.count("open")


async def test_an_endless_opening_is_shown(scene: Any) -> None:
    """More than 64 KB without anything visible are not held any longer: memory is bounded, and the client sees life."""
    made = scene(stream=True)
    made.sink.begin(streamed=True)
    pushed = 0
    while not made.sink.committed:
        await made.sink.push(OPENING)
        pushed += 1
    assert pushed == 64 * 1024 // len(OPENING) + 1
    assert OPENING * pushed == made.exchange.received


async def test_an_error_before_anything_visible_leaves_the_client_alone(scene: Any) -> None:
    """It is raised, and nothing was sent: the next backend begins with a clean sheet."""
    made = scene(stream=True)
    made.sink.begin(streamed=True)
    await made.sink.push(OPENING)
    with pytest.raises(UpstreamFailed, match="overheated"):
        await made.sink.push(b'data: {"error": {"message": "overheated"}}\n\n')
    assert (False, []) == (made.sink.committed, made.exchange.calls)


async def test_an_error_in_the_middle_comes_after_what_was_before_it(scene: Any) -> None:
    """Text that came in the same piece as the error still reaches the client; the error itself is raised."""
    made = scene(stream=True)
    made.sink.begin(streamed=True)
    await made.sink.push(HELLO)
    with pytest.raises(UpstreamFailed):
        await made.sink.push(HELLO + b'data: {"error": {"message": "overheated"}}\n\n')
    assert HELLO * 2 == made.exchange.received
    assert made.exchange.streaming


async def test_a_stream_that_stops_too_early_is_truncated(scene: Any) -> None:
    """A clean end without a finish reason is no end, and the client's stream stays open for the error."""
    made = scene(stream=True)
    made.sink.begin(streamed=True)
    await made.sink.push(HELLO)
    with pytest.raises(UpstreamTruncated):
        await made.sink.end()
    assert made.exchange.streaming


async def test_a_whole_answer_goes_out_in_one_piece(scene: Any) -> None:
    """In whatever pieces it came; its headers know what it used."""
    made = scene(stream=False)
    made.sink.begin(streamed=False)
    for at in range(len(WHOLE)):
        await made.sink.push(WHOLE[at : at + 1])
    assert [] == made.exchange.calls
    finish = await made.sink.end()
    usage = Usage(prompt_tokens=3, output_tokens=2)
    assert (["answer"], WHOLE, [usage]) == (made.exchange.calls, made.exchange.received, made.asked_headers)
    assert ("stop", usage) == (finish.reason, finish.usage)
    assert (True, None, len("Hello there")) == (
        made.sink.committed,
        made.sink.first_token_s,
        made.sink.output_bytes,
    )


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"choices": []}', WHOLE[:-1]])
async def test_a_body_that_is_no_answer_never_reaches_the_client(scene: Any, body: bytes) -> None:
    """It is the backend's fault, and another one may still answer."""
    made = scene(stream=False)
    made.sink.begin(streamed=False)
    if body:
        await made.sink.push(body)
    with pytest.raises(UpstreamInvalid):
        await made.sink.end()
    assert (False, []) == (made.sink.committed, made.exchange.calls)


async def test_what_an_upstream_may_send_is_bounded(scene: Any) -> None:
    """A whole answer and one event of a stream have limits, to the byte."""
    made = scene(stream=False, max_answer_bytes=len(WHOLE))
    made.sink.begin(streamed=False)
    await made.sink.push(WHOLE)
    with pytest.raises(UpstreamInvalid, match=f"{len(WHOLE)} bytes"):
        await made.sink.push(b" ")
    streamed = scene(stream=True, max_event_bytes=1024)
    streamed.sink.begin(streamed=True)
    with pytest.raises(UpstreamInvalid, match="1024 bytes"):
        await streamed.sink.push(b"data: " + b"x" * 1100)


async def test_a_slow_client_holds_the_upstream_and_is_known_for_it(scene: Any) -> None:
    """Push returns when the client has taken the piece: until then the answer waits for the client."""
    made = scene(stream=True)
    made.sink.begin(streamed=True)
    made.exchange.reading.clear()
    pushing = asyncio.create_task(made.sink.push(HELLO))
    await made.exchange.blocked.wait()
    assert (False, ["client"]) == (pushing.done(), made.pace.waits)
    made.exchange.reading.set()
    await pushing
    assert ["client", "upstream"] == made.pace.waits
    await made.sink.push(FINISH + DONE)
    await made.sink.end()
    assert "client" == made.pace.waits[-1]
