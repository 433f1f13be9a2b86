"""What upstreams do to their streams, and what a client must see all the same: cuts, early ends and errors."""

from typing import Any

import msgspec
import pytest

ENDPOINTS = ["/v1/chat/completions", "/v1/completions"]


def _chunk(path: str = ENDPOINTS[0], *, text: str = "", reason: str | None = None, **delta: Any) -> dict[str, Any]:
    choice: dict[str, Any] = {"index": 0, "finish_reason": reason}
    if path == ENDPOINTS[0]:
        choice["delta"] = {**({"content": text} if text else {}), **delta}
    else:
        choice["text"] = text
    return {"id": "u", "object": "o", "created": 1, "model": "m", "choices": [choice]}


def _event(chunk: Any) -> bytes:
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"


DONE = b"data: [DONE]\n\n"
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": "你"}'}}
RECORDED = [
    _chunk(role="assistant", content=""),
    _chunk(text="data: 你好"),
    _chunk(text="👩‍👩‍👧 \u2028 \x0c"),
    _chunk(text="[DONE]\r\n"),
    _chunk(tool_calls=[CALL]),
    _chunk(reason="tool_calls"),
]
GOOD = b"".join(map(_event, RECORDED)) + DONE
RECUTS = {
    "one byte at a time": [GOOD[at : at + 1] for at in range(len(GOOD))],
    "crlf": [GOOD.replace(b"\n", b"\r\n")],
    "cr": [GOOD.replace(b"\n", b"\r")],
    "crlf in halves": [*(piece + b"\r" for piece in GOOD.replace(b"\n", b"\r\n").split(b"\r"))],
    "no space": [GOOD.replace(b"data: ", b"data:", 1).replace(b"\n\ndata: ", b"\n\ndata:")],
    "comments": [b": hello\n\n", GOOD.replace(b"\n\n", b"\n: ping\n\n: pong\n\n")],
    "bom": [b"\xef\xbb\xbf" + GOOD],
    "event and id fields": [GOOD.replace(b"data: {", b"id: 7\nevent: message\nretry: 1\ndata: {")],
}


@pytest.mark.parametrize("recut", RECUTS)
async def test_recut_streams_give_the_same_events(gateway_over: Any, events_of: Any, recut: str) -> None:
    """However a stream is cut and its lines are ended, the client sees the same events."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.stream(*RECUTS[recut])

    front, _ = await gateway_over(respond)
    response = await front.post({"stream": True})
    assert [*RECORDED, "[DONE]"] == events_of(response.content)


async def test_a_cut_at_any_offset_gives_the_same_events(gateway_over: Any, events_of: Any) -> None:
    """Cut in two inside a character, a field name or a line end, nothing is lost and nothing is garbled."""
    offsets = iter(range(1, len(GOOD), 3))

    async def respond(_: Any, conversation: Any) -> None:
        at = next(offsets)
        await conversation.stream(GOOD[:at], GOOD[at:])

    front, upstream = await gateway_over(respond)
    for _ in range(1, len(GOOD), 3):
        response = await front.post({"stream": True})
        assert [*RECORDED, "[DONE]"] == events_of(response.content), f"cut {len(upstream.requests)}"


async def test_one_very_long_event(gateway_over: Any, events_of: Any) -> None:
    """An event of three megabytes passes; there is no hidden limit on a line."""
    long = _chunk(text="界" * 2**20)

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.stream(_event(_chunk(text="a")), _event(long), _event(_chunk(reason="stop")), DONE)

    front, _ = await gateway_over(respond)
    events = events_of((await front.post({"stream": True})).content)
    assert [_chunk(text="a"), long, _chunk(reason="stop"), "[DONE]"] == events


async def _end_cleanly(conversation: Any, path: str) -> None:
    await conversation.stream(_event(_chunk(path, text="Hi")))


async def _reset(conversation: Any, path: str) -> None:
    await conversation.stream(_event(_chunk(path, text="Hi")), end=False)
    conversation.reset()


async def _say_only_done(conversation: Any, path: str) -> None:
    await conversation.stream(_event(_chunk(path, text="Hi")), DONE)


async def _say_only_the_reason(conversation: Any, path: str) -> None:
    await conversation.stream(_event(_chunk(path, text="Hi")), _event(_chunk(path, reason="stop")))


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize("ending", [_end_cleanly, _reset])
async def test_a_stream_that_stops_early_is_no_answer(
    gateway_over: Any, events_of: Any, path: str, ending: Any
) -> None:
    """An early end is one error in the stream and a truncated request on the ledger; no end is made up."""

    async def respond(_: Any, conversation: Any) -> None:
        await ending(conversation, path)

    front, _ = await gateway_over(respond)
    events = events_of((await front.post({"stream": True}, path=path)).content)
    assert _chunk(path, text="Hi") == events[0]
    assert ["upstream_truncated"] == [event["error"]["code"] for event in events[1:]]
    assert ("truncated", "") == ((row := await front.row())["status"], row["finish_reason"])


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize("ending", [_say_only_done, _say_only_the_reason])
async def test_either_end_mark_is_enough(gateway_over: Any, events_of: Any, path: str, ending: Any) -> None:
    """``[DONE]`` without a reason and a reason without ``[DONE]`` are both whole answers."""

    async def respond(_: Any, conversation: Any) -> None:
        await ending(conversation, path)

    front, _ = await gateway_over(respond)
    events = events_of((await front.post({"stream": True}, path=path)).content)
    assert "[DONE]" == events[-1]
    assert not any("error" in event for event in events[:-1])
    assert "ok" == (await front.row())["status"]


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("content", [b"", b'{"id": "u", "choices": [{"ind'])
async def test_no_answer_at_all_is_a_502(gateway_over: Any, path: str, stream: bool, content: bytes) -> None:
    """An empty or broken-off answer of which nothing was seen is a 502 in the envelope, streamed or not."""

    async def respond(_: Any, conversation: Any) -> None:
        if stream:
            await conversation.stream(*filter(None, [b"data: " + content if content else b""]))
        else:
            await conversation.answer(content)

    front, _ = await gateway_over(respond)
    response = await front.post({"stream": stream}, path=path)
    assert 502 == response.status_code
    assert "application/json" == response.headers["content-type"]
    assert response.json()["error"]["code"] in {"upstream_invalid", "upstream_truncated"}
    assert (await front.row())["status"] in {"upstream_failed", "truncated"}


async def test_a_whole_answer_cut_off_by_the_connection_is_a_502(gateway_over: Any) -> None:
    """A whole answer whose connection breaks in its middle is not passed on."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{")
        conversation.reset()

    front, _ = await gateway_over(respond)
    response = await front.post()
    assert (502, "upstream_truncated") == (response.status_code, response.json()["error"]["code"])


ERRORS = {
    "top-level error": b'data: {"error":{"message":"boom at http://10.1.2.3:8000/x","type":"t","code":"c"}}\n\n',
    "empty choices and an error": b'data: {"choices":[],"error":{"message":"boom at db.internal","code":"c"}}\n\n',
    "named event": b'event: error\ndata: {"message":"boom at 10.1.2.3","code":"c"}\n\n',
}


@pytest.mark.parametrize("name", ERRORS)
async def test_errors_inside_a_stream_survive_as_one_event(gateway_over: Any, events_of: Any, name: str) -> None:
    """What came before an error stays; its words and its class come once, without our hosts; then it ends."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.stream(_event(_chunk(text="a")), _event(_chunk(text="b")), ERRORS[name], DONE)

    front, _ = await gateway_over(respond)
    content = (await front.post({"stream": True})).content
    *deltas, error = events_of(content)
    assert [_chunk(text="a"), _chunk(text="b")] == deltas
    assert "c" == error["error"]["code"]
    assert error["error"]["message"].startswith("boom at ")
    assert b"10.1.2.3" not in content
    assert b"internal" not in content.replace(b"internal_error", b"")


async def test_half_an_event_and_a_reset_is_one_error(gateway_over: Any, events_of: Any) -> None:
    """Half a line is never followed by ours: the client gets whole events and one error."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.stream(_event(_chunk(text="a")), _event(_chunk(text="b")), b'data: {"choi', end=False)
        conversation.reset()

    front, _ = await gateway_over(respond)
    events = events_of((await front.post({"stream": True})).content)
    assert [_chunk(text="a"), _chunk(text="b")] == events[:-1]
    assert "upstream_truncated" == events[-1]["error"]["code"]
