"""How an answer can end, and what is said of each end. All over real sockets."""

from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest

from backends import _http
from gateway.errors import (
    UpstreamError,
    UpstreamFailed,
    UpstreamInvalid,
    UpstreamRateLimited,
    UpstreamRefused,
    UpstreamTruncated,
    UpstreamUnauthorised,
    UpstreamUnreachable,
)
from gateway.price import Usage

Connect = Callable[..., Any]
Send = Callable[..., Any]

STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


@pytest.fixture
def send(connect: Connect, make_call: Any, recording_sink: Any) -> Send:
    """Sends one call to an upstream that answers as told; gives the finish and the sink."""

    async def sent(respond: Any, *, stream: bool, clock: Any = None, **parameters: Any) -> Any:
        async with connect(respond, clock=clock, **parameters) as (backend, _):
            call = make_call(stream=stream)
            sink = recording_sink(call)
            return await backend.send(call, sink), sink

    return sent


async def test_a_whole_answer_comes_down_as_it_is(send: Send, body: Any) -> None:
    """The bytes are the upstream's own, whatever pieces they came in."""
    sent = b""

    async def respond(request: Any, conversation: Any) -> None:
        nonlocal sent
        sent = body(request)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(sent)
        await conversation.send(head, *(sent[at : at + 1] for at in range(len(sent))))

    finish, sink = await send(respond, stream=False)
    assert (sent, False) == (sink.received, sink.streamed)
    assert ("stop", Usage(prompt_tokens=3, output_tokens=2), "served") == (finish.reason, finish.usage, finish.model)


async def test_a_stream_comes_down_as_it_is(send: Send, events: Any) -> None:
    """Events cut at every byte, in letters of several bytes too, arrive as the same bytes."""
    sent = b""

    async def respond(request: Any, conversation: Any) -> None:
        nonlocal sent
        sent = b"".join(events(request))
        await conversation.stream(*(sent[at : at + 1] for at in range(len(sent))))

    finish, sink = await send(respond, stream=True)
    assert (sent, True, {0: "Grüße 世界"}) == (sink.received, sink.streamed, sink.texts)
    assert ("stop", Usage(prompt_tokens=3, output_tokens=2)) == (finish.reason, finish.usage)


@pytest.mark.parametrize(
    ("keep", "ending", "expected"),
    [
        (slice(0, 2), "close", UpstreamTruncated),
        (slice(0, 2), "reset", UpstreamTruncated),
        (slice(0, 3), "close", None),
        (slice(0, 3), "reset", None),
        (slice(0, 5), "close", None),
        (slice(0, 5), "reset", None),
        (slice(0, 0), "close", UpstreamInvalid),
    ],
    ids=["text", "text-reset", "finish", "finish-reset", "done", "done-reset", "empty"],
)
async def test_where_a_stream_ends(
    send: Send, events: Any, keep: slice, ending: str, expected: type[UpstreamError] | None
) -> None:
    """A stream is over when its finish reason or its end mark has come, and not because the connection has ended."""

    async def respond(request: Any, conversation: Any) -> None:
        await conversation.stream(*events(request)[keep], end=ending == "close")
        conversation.writer.close()

    if expected is None:
        finish, _ = await send(respond, stream=True)
        assert "stop" == finish.reason
        return
    with pytest.raises(expected) as caught:
        await send(respond, stream=True)
    assert "pool" == caught.value.backend


async def test_an_end_mark_alone_is_an_end(send: Send, events: Any) -> None:
    """An upstream that says it is done, and no reason, is done."""

    async def respond(request: Any, conversation: Any) -> None:
        *_, done = events(request)
        await conversation.stream(events(request)[0], done)

    _, sink = await send(respond, stream=True)
    assert {0: "Grüße"} == sink.texts


async def test_half_a_line_and_a_reset(send: Send, events: Any) -> None:
    """A stream that breaks in the middle of an event is cut short; what came before stays valid."""

    async def respond(request: Any, conversation: Any) -> None:
        first, second, *_ = events(request)
        await conversation.send(STREAM_HEAD, first, second[: len(second) // 2])
        conversation.reset()

    with pytest.raises((UpstreamTruncated, UpstreamUnreachable)):
        await send(respond, stream=True)


@pytest.mark.parametrize(
    "event",
    [
        b'data: {"error":{"message":"node gpu7.cluster.internal:8000 died","type":"engine_dead","code":503}}\n\n',
        b'data: {"choices":[],"error":{"message":"node gpu7.cluster.internal:8000 died","type":"engine_dead"}}\n\n',
        b'event: error\ndata: {"message":"node gpu7.cluster.internal:8000 died","type":"engine_dead"}\n\n',
    ],
    ids=["top-level", "beside empty choices", "named event"],
)
async def test_an_error_inside_a_stream(send: Send, events: Any, event: bytes) -> None:
    """An error that arrives after some text keeps its words and its class, and not the names of inner hosts."""

    async def respond(request: Any, conversation: Any) -> None:
        await conversation.stream(*events(request)[:2], event)

    with pytest.raises(UpstreamFailed, match="died") as caught:
        await send(respond, stream=True)
    assert ("engine_dead", "pool") == (caught.value.upstream_type, caught.value.backend)
    assert "gpu7" not in caught.value.message


@pytest.mark.parametrize("stream", [True, False])
async def test_an_error_inside_an_answer_that_quotes_our_key(send: Send, events: Any, key: str, stream: bool) -> None:
    """The key is out of the words of an error that comes with status 200 as well."""
    error = b'{"error":{"message":"bad %b","type":"%b","code":"%b"}}' % ((key.encode(),) * 3)

    async def respond(request: Any, conversation: Any) -> None:
        if stream:
            await conversation.stream(events(request)[0], b"data: " + error + b"\n\n")
        else:
            await conversation.answer(error)

    with pytest.raises(UpstreamFailed, match="bad") as caught:
        await send(respond, stream=stream)
    assert key not in repr((caught.value.args, caught.value.message, vars(caught.value)))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", UpstreamInvalid),
        (b"{", UpstreamInvalid),
        (b"<html>login</html>", UpstreamInvalid),
        (b'{"choices":[]}', UpstreamInvalid),
        (b'{"error":{"message":"overloaded"}}', UpstreamFailed),
    ],
)
async def test_a_success_that_is_none(send: Send, raw: bytes, expected: type[UpstreamError]) -> None:
    """A status of 200 makes no answer of what is none."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.answer(raw)

    with pytest.raises(expected):
        await send(respond, stream=False)


async def test_a_whole_answer_that_breaks_off(send: Send, body: Any) -> None:
    """A body shorter than its announced length was cut, however well it might parse."""

    async def respond(request: Any, conversation: Any) -> None:
        whole = body(request)
        await conversation.answer(whole, headers={"content-length": str(len(whole) + 1)})
        conversation.writer.close()

    with pytest.raises(UpstreamTruncated, match="in the middle"):
        await send(respond, stream=False)


async def test_a_whole_answer_that_never_ends(send: Send) -> None:
    """An answer that grows past the limit is not read further."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
        while True:
            await conversation.send(b" " * 1000)

    with pytest.raises(UpstreamInvalid, match="longer than 5000 bytes"):
        await send(respond, stream=False, max_answer_bytes=5000)


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"content-type": "text/html"}, "neither JSON nor a stream"),
        ({"content-type": "application/json", "content-encoding": "gzip"}, "compressed"),
    ],
)
async def test_an_answer_of_another_kind(send: Send, body: Any, headers: dict[str, str], words: str) -> None:
    """A login page, or bytes in a coding that we did not ask for, are no answer."""

    async def respond(request: Any, conversation: Any) -> None:
        await conversation.answer(body(request), headers=headers)

    with pytest.raises(UpstreamInvalid, match=words):
        await send(respond, stream=False)


@pytest.mark.parametrize("asked_stream", [True, False])
async def test_what_came_is_told_and_not_what_was_asked(send: Send, events: Any, body: Any, asked_stream: bool) -> None:
    """The sink hears whether the answer is a stream by what the upstream says of it."""

    async def respond(request: Any, conversation: Any) -> None:
        if asked_stream:
            await conversation.answer(body(request))
        else:
            await conversation.stream(*events(request))

    _, sink = await send(respond, stream=asked_stream)
    assert asked_stream is not sink.streamed


async def test_a_retry_after_as_a_date(send: Send, hand_clock: Any) -> None:
    """The wait that a rate limit asks for is read from a date too, and capped."""

    async def respond(_: Any, conversation: Any) -> None:
        date = formatdate(hand_clock.unix_s() + 86_400, usegmt=True)
        await conversation.answer(b"{}", status=429, headers={"retry-after": date})

    with pytest.raises(UpstreamRateLimited) as caught:
        await send(respond, stream=False, clock=hand_clock, max_retry_after_s=60.0)
    assert 60.0 == caught.value.retry_after_s


@pytest.mark.parametrize(("status", "expected"), [(400, UpstreamRefused), (401, UpstreamUnauthorised)])
async def test_an_error_of_any_length(send: Send, status: int, expected: type[UpstreamError]) -> None:
    """Of an error without end only the beginning is read, and its status counts."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.send(b"HTTP/1.1 %d No\r\ncontent-type: text/plain\r\n\r\n" % status)
        while True:
            await conversation.send(b"no " * 1000)

    with pytest.raises(expected) as caught:
        await send(respond, stream=True)
    assert len(caught.value.message) < 1100
    assert status == caught.value.upstream_status


@pytest.mark.parametrize("began", [b"", b'{"error": {"message": "too '])
async def test_a_refusal_that_never_ends(send: Send, monkeypatch: pytest.MonkeyPatch, began: bytes) -> None:
    """An error whose body is not there soon is told without it, by its status: it is no timeout of the backend's."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.send(b"HTTP/1.1 400 No\r\ncontent-length: 50000\r\n\r\n" + began)
        await conversation.until_closed()

    monkeypatch.setattr(_http, "REFUSAL_S", 0.05)
    with pytest.raises(UpstreamRefused) as caught:
        await send(respond, stream=True)
    assert (400, 400, False) == (caught.value.upstream_status, caught.value.http_status, caught.value.retryable)
