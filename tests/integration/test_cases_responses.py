"""OpenAI's Responses over upstreams of three formats: what they do to their streams, and what a strict client sees."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from gateway.price import Usage
from gateway.types import Operation
from gateway.wire.deltas import AnswerEnd, AnswerStart, ChoiceFinish, TextDelta, UsageReport
from gateway.wire.responses_writer import responses_writer
from tests.contract.answer_scripts import COUNTS, AnthropicScript, OpenAIScript
from tests.unit.gateway.wire.answer_pairs import request_of

RESPONSES = "/v1/responses"
ASK = {"model": "m", "input": "q"}
SAID = "data: 你好 👩‍👩‍👧 \u2028 [DONE]"
DONE = b"data: [DONE]\n\n"
_NAME = re.compile(r"[0-9a-f]{24}")
_MOMENT = re.compile(r'"(created|completed)_at": \d+')
_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


class ResponsesScript:
    """Responses themselves, as another gateway would write them: passed through."""

    def __init__(self) -> None:
        self._writer = responses_writer(request_of(Operation.RESPONSE), streamed=True)

    def opened(self) -> bytes:
        """See ``Script``."""
        return self._writer.write([AnswerStart(id="u", model="m")])

    def text(self, text: str) -> bytes:
        """See ``Script``."""
        return self._writer.write([TextDelta(text=text)])

    def ended(self) -> bytes:
        """See ``Script``."""
        return self._writer.write([ChoiceFinish(reason="stop"), UsageReport(usage=COUNTS), AnswerEnd()])

    def done(self) -> bytes:
        """See ``Script``."""
        return b""


KINDS: Mapping[str, dict[str, Any]] = {
    "chat": {},
    "anthropic": {"use": "anthropic"},
    "responses": {"operations": ["response"], "models": ["m"]},
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def _script(kind: str) -> Any:
    """A fresh one: its events are numbered."""
    return {"chat": lambda: OpenAIScript(Operation.CHAT), "anthropic": AnthropicScript, "responses": ResponsesScript}[
        kind
    ]()


def _whole_stream(kind: str) -> bytes:
    script = _script(kind)
    opened, text, ended = script.opened(), script.text(SAID) + script.text("!"), script.ended()
    counts = script.writer.usage(Usage(prompt_tokens=5, output_tokens=7)) if kind == "chat" else b""
    return opened + text + ended + counts + script.done()


def _events(content: bytes) -> list[dict[str, Any]]:
    """The events of a stream: each is named as its data say, is of the official types, and has the next number."""
    frames = content.split(b"\n\n")
    assert frames.pop() == b""
    events = []
    for frame in frames:
        name, _, data = frame.partition(b"\ndata: ")
        events.append(json.loads(data))
        _EVENT.validate_python(events[-1])
        assert name.decode() == f"event: {events[-1]['type']}"
    assert list(range(len(events))) == [event["sequence_number"] for event in events]
    return events


async def _asked(front: Any, body: dict[str, Any]) -> Any:
    return await front.post(json.dumps(body).encode(), path=RESPONSES)


def _text(events: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


def _steady(events: list[dict[str, Any]]) -> str:
    """The events without what differs from answer to answer: names and moments."""
    return _MOMENT.sub('"at": 0', _NAME.sub("name", json.dumps(events)))


def _recuts(stream: bytes) -> list[list[bytes]]:
    crlf = stream.replace(b"\n", b"\r\n")
    return [
        [stream],
        [stream[at : at + 1] for at in range(len(stream))],
        [*(piece + b"\r" for piece in crlf.split(b"\r"))],
        [stream.replace(b"\n", b"\r")],
        [b"\xef\xbb\xbf: hello\n\n", stream.replace(b"\n\n", b"\n: ping\n\n: pong\n\n")],
        [stream.replace(b"data: {", b"data:{")],
    ]


@each_kind
async def test_recut_streams_give_the_same_events(gateway_over: Any, kind: str) -> None:
    """However a stream is cut and its lines are ended, the client sees the same events, and the whole text."""
    cuts = _recuts(_whole_stream(kind))
    ways = iter(cuts)

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.stream(*next(ways))

    front, _ = await gateway_over(respond, **KINDS[kind])
    answers = [_events((await _asked(front, {**ASK, "stream": True})).content) for _ in cuts]
    assert f"{SAID}!" == _text(answers[0])
    assert all(_steady(answer) == _steady(answers[0]) for answer in answers)


@each_kind
async def test_events_come_in_openais_order(gateway_over: Any, kind: str) -> None:
    """Opening, item, part, deltas, their ends, and a last event that has all of it, with the counts."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.stream(_whole_stream(kind))

    front, _ = await gateway_over(respond, **KINDS[kind])
    events = _events((await _asked(front, {**ASK, "stream": True})).content)
    kinds = [event["type"].removeprefix("response.") for event in events]
    assert ["created", "in_progress", "output_item.added", "content_part.added"] == kinds[:4]
    assert {"output_text.delta"} == set(kinds[4:-4])
    assert ["output_text.done", "content_part.done", "output_item.done", "completed"] == kinds[-4:]
    response = Response.model_validate(events[-1]["response"])
    assert (f"{SAID}!", "completed", 5) == (response.output_text, response.status, response.usage.input_tokens)  # type: ignore[union-attr]
    assert (await front.row())["output_tokens"] == 7


ENDINGS = ("a clean end", "a reset", "an end inside an event")


@each_kind
@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_stream_that_stops_early_is_no_answer(gateway_over: Any, kind: str, ending: str) -> None:
    """What was delivered stays, one error event with the next number follows, and nothing is said to be complete."""
    script = _script(kind)
    sent = script.opened() + script.text("a")
    rest = script.text("b")[:-9] if ending == ENDINGS[2] else b""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.stream(sent + rest, end=ending != "a reset")
        if ending == "a reset":
            conversation.reset()

    front, _ = await gateway_over(respond, **KINDS[kind])
    *events, last = _events((await _asked(front, {**ASK, "stream": True})).content)
    assert "a" == _text(events)
    assert ("error", "upstream_truncated") == (last["type"], last["code"])
    assert not {"response.completed", "response.incomplete", "error"} & {event["type"] for event in events}
    assert "truncated" == (await front.row())["status"]


@each_kind
@pytest.mark.parametrize("stream", [True, False])
async def test_an_empty_answer_is_a_502(gateway_over: Any, kind: str, stream: bool) -> None:
    """Nothing was sent yet, so it is an answer of its own, in OpenAI's envelope."""

    async def respond(_: Any, conversation: Any) -> None:
        await (conversation.stream() if stream else conversation.answer(b""))

    front, _ = await gateway_over(respond, **KINDS[kind])
    response = await _asked(front, {**ASK, "stream": stream})
    assert (502, {"message", "type", "param", "code"}) == (response.status_code, set(response.json()["error"]))
    assert (await front.row())["status"] in {"upstream_failed", "truncated"}


@pytest.mark.parametrize("ending", ["mark alone", "reason alone"])
async def test_either_end_mark_of_a_chat_is_enough(gateway_over: Any, ending: str) -> None:
    """``[DONE]`` without a reason and a reason without ``[DONE]`` are both whole answers."""
    script = OpenAIScript(Operation.CHAT)
    end = DONE if ending == "mark alone" else script.ended()

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.stream(script.opened() + script.text("a") + end)

    front, _ = await gateway_over(respond)
    events = _events((await _asked(front, {**ASK, "stream": True})).content)
    assert ("a", "response.completed") == (_text(events), events[-1]["type"])
    assert "ok" == (await front.row())["status"]


ERRORS = {
    "chat": (
        b'data: {"error":{"message":"too much at http://10.0.0.1/","type":"t","code":"c"}}\n\n',
        b'data: {"choices":[],"error":{"message":"too much","type":"t","code":"c"}}\n\n',
        b'event: error\ndata: {"message":"too much at 10.0.0.1","type":"t","code":"c"}\n\n',
    ),
    "anthropic": (
        b'event: error\ndata: {"type":"error","error":{"type":"c","message":"too much at http://10.0.0.1/"}}\n\n',
    ),
    "responses": (
        b'event: error\ndata: {"type":"error","code":"c","message":"too much at http://10.0.0.1/","sequence_number":9}\n\n',
        (
            b'event: response.failed\ndata: {"type":"response.failed","response":{"status":"failed","error":'
            b'{"code":"c","message":"too much"}}}\n\n'
        ),
    ),
}


@pytest.mark.parametrize(("kind", "error"), [(kind, error) for kind, errors in ERRORS.items() for error in errors])
async def test_an_error_inside_a_stream(gateway_over: Any, kind: str, error: bytes) -> None:
    """The deltas before it stay, then exactly one event with its words and the next number; no inner host gets out."""
    script = _script(kind)

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.stream(script.opened() + script.text("a") + error + script.text("b"))

    front, _ = await gateway_over(respond, **KINDS[kind])
    content = (await _asked(front, {**ASK, "stream": True})).content
    *events, last = _events(content)
    assert "a" == _text(events)
    assert ("error", True) == (last["type"], last["message"].startswith("too much"))
    assert 1 == content.count(b"event: error")
    assert b"10.0.0.1" not in content


def _call(name: str = "", arguments: str = "", **fields: Any) -> dict[str, Any]:
    return {**fields, "type": "function", "function": {**({"name": name} if name else {}), "arguments": arguments}}


CALLS = {
    "one a chunk, all at index 0": [
        [_call("f", '{"a":1}', index=0, id="c1")],
        [_call("g", '{"b":2}', index=0, id="c2")],
    ],
    "interleaved": [
        [_call("f", '{"a"', index=0, id="c1"), _call("g", '{"b"', index=1, id="c2")],
        [_call(arguments=":2}", index=1), _call(arguments=":1}", index=0)],
    ],
    "no id": [[_call("f", '{"a":1}', index=0)], [_call("g", '{"b":2}', index=1)]],
    "no index": [[_call("f", '{"a":', id="c1")], [_call(arguments="1}", id="c1")], [_call("g", '{"b":2}', id="c2")]],
}


@pytest.mark.parametrize("shape", CALLS)
async def test_parallel_calls_stay_apart(gateway_over: Any, shape: str) -> None:
    """Each is an item of its own, opened and closed once, whose arguments are JSON and its deltas' sum."""
    head = {"id": "u", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    async def respond(_: Any, conversation: Any) -> None:
        deltas = [{"index": 0, "delta": {"tool_calls": calls}} for calls in CALLS[shape]]
        chunks = [*deltas, {"index": 0, "delta": {}, "finish_reason": "tool_calls"}]
        await conversation.stream(
            *(b"data: " + json.dumps({**head, "choices": [it]}).encode() + b"\n\n" for it in chunks)
        )

    front, _ = await gateway_over(respond)
    events = _events((await _asked(front, {**ASK, "stream": True})).content)
    joined: dict[int, str] = {}
    for event in events:
        if event["type"] == "response.function_call_arguments.delta":
            joined[event["output_index"]] = joined.get(event["output_index"], "") + event["delta"]
    items = events[-1]["response"]["output"]
    assert [("f", {"a": 1}), ("g", {"b": 2})] == [(it["name"], json.loads(it["arguments"])) for it in items]
    assert [it["arguments"] for it in items] == [joined[at] for at in range(2)]
    assert 2 == len({it["call_id"] for it in items})
    for kind in ("added", "done"):
        assert [0, 1] == sorted(it["output_index"] for it in events if it["type"] == f"response.output_item.{kind}")


ZEROS = {"temperature": 0, "top_p": 0, "top_logprobs": 0, "parallel_tool_calls": False, "tool_choice": "none"}


@pytest.mark.parametrize("kind", ["chat", "responses"])
@pytest.mark.parametrize("stream", [True, False])
async def test_zero_is_a_value(gateway_over: Any, kind: str, stream: bool) -> None:
    """Zeros arrive as they were sent; what was absent stays absent."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.answer(b'{"error":{"message":"enough"}}', status=400)

    front, upstream = await gateway_over(respond, **KINDS[kind])
    await _asked(front, {**ASK, **ZEROS, "stream": stream})
    body = upstream.requests[0].json
    expected = ZEROS if kind == "responses" else {name: it for name, it in ZEROS.items() if name != "top_logprobs"}
    assert expected == {name: it for name, it in body.items() if name in expected}
    assert not {"max_tokens", "max_output_tokens", "n", "stop", "seed"} & body.keys()


@pytest.mark.parametrize("said", [[], "", [{"type": "output_text", "text": "", "annotations": []}]])
async def test_a_call_without_words_reaches_every_upstream(gateway_over: Any, said: Any) -> None:
    """A replayed turn that says nothing loses no call and no result, and Anthropic gets no empty text block."""
    items = [
        {"role": "user", "content": "hi"},
        {"type": "message", "role": "assistant", "content": said},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "42"},
    ]

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.answer(b'{"error":{"message":"enough"}}', status=400)

    for kind in ("chat", "anthropic"):
        front, upstream = await gateway_over(respond, **KINDS[kind])
        await _asked(front, {"model": "m", "input": items})
        body = json.dumps(upstream.requests[0].json)
        assert '"c1"' in body
        assert '"42"' in body
        assert kind == "chat" or '"text": ""' not in body


COUNTS_BY_KIND = {
    "anthropic": {"input_tokens": 317, "cache_creation_input_tokens": 4425, "cache_read_input_tokens": 100},
    "chat": {"prompt_tokens": 4842, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 100}},
}


@pytest.mark.parametrize("kind", COUNTS_BY_KIND)
@pytest.mark.parametrize("stream", [True, False])
async def test_cache_tokens_are_counted_once(gateway_over: Any, kind: str, stream: bool) -> None:
    """The input is all of it, what a cache had is a part of it: to the client, and on the ledger."""
    usage = COUNTS_BY_KIND[kind]

    async def respond(_: Any, conversation: Any) -> None:
        if kind == "chat":
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "a"}}
            whole = {"id": "u", "object": "chat.completion", "created": 1, "model": "m", "usage": usage}
            streamed = {**choice, "delta": {"content": "a"}}
            await (
                conversation.stream(b"data: " + json.dumps({**whole, "choices": [streamed]}).encode() + b"\n\n", DONE)
                if stream
                else conversation.answer(json.dumps({**whole, "choices": [choice]}).encode())
            )
            return
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
        said = {"content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn", "stop_sequence": None}
        if not stream:
            await conversation.answer(json.dumps({**head, **said, "usage": {**usage, "output_tokens": 9}}).encode())
            return
        opening = {**head, "content": [], "stop_reason": None, "stop_sequence": None}
        script = AnthropicScript()
        begun = {"type": "message_start", "message": {**opening, "usage": {**usage, "output_tokens": 1}}}
        ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {**usage, "output_tokens": 9}}
        block = script.opened().partition(b"\n\n")[2]
        closed = script.ended().partition(b"\n\n")[0] + b"\n\n"
        named = [f"event: {it['type']}\ndata: {json.dumps(it)}\n\n".encode() for it in (begun, ended)]
        await conversation.stream(named[0], block, script.text("a"), closed, named[1], script.done())

    front, _ = await gateway_over(respond, **KINDS[kind])
    answer = await _asked(front, {**ASK, "stream": stream})
    response = _events(answer.content)[-1]["response"] if stream else answer.json()
    told = response["usage"]
    assert (4842, 100, 9) == (
        told["input_tokens"],
        told["input_tokens_details"]["cached_tokens"],
        told["output_tokens"],
    )
    row = await front.row()
    assert (4842, 100, 9) == (row["prompt_tokens"], row["cached_tokens"], row["output_tokens"])


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("reason", "status", "why"),
    [
        ("max_tokens", "incomplete", "max_output_tokens"),
        ("refusal", "incomplete", "content_filter"),
        ("model_context_window_exceeded", "incomplete", "max_output_tokens"),
        ("stop_sequence", "completed", None),
        ("pause_turn", "incomplete", "pause_turn"),
    ],
)
async def test_an_end_that_is_none_never_looks_like_one(
    gateway_over: Any, reason: str, status: str, why: str | None, stream: bool
) -> None:
    """What was cut, refused or is unknown is incomplete, and says why."""
    script = AnthropicScript()

    async def respond(_: Any, conversation: Any) -> None:
        if stream:
            await conversation.stream(script.opened(), script.text("a"), script.ended(reason), script.done())
        else:
            await conversation.answer(script.whole("a").replace(b'"max_tokens"', json.dumps(reason).encode()))

    front, _ = await gateway_over(respond, **KINDS["anthropic"])
    content = (await _asked(front, {**ASK, "stream": stream})).content
    response = json.loads(content.rpartition(b"\ndata: ")[2])["response"] if stream else json.loads(content)
    assert (status, why) == (response["status"], (response["incomplete_details"] or {}).get("reason"))
