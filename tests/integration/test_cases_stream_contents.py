"""What upstreams put into their streams: usage in odd places, and tool calls that are labelled wrongly."""

import json
from typing import Any

import msgspec
import pytest

USAGE = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
DONE = b"data: [DONE]\n\n"


def _event(choices: list[Any] | None, **fields: Any) -> bytes:
    chunk = {"id": "u", "object": "chat.completion.chunk", "created": 1, "model": "m", **fields}
    if choices is not None:
        chunk["choices"] = choices
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"


def _choice(reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": reason}


STREAMS = {
    "after all choices": [_event([_choice("stop")]), _event([], usage=USAGE)],
    "without choices": [_event([_choice("stop")]), _event(None, usage=USAGE)],
    "in the last chunk": [_event([_choice("stop")], usage=USAGE)],
    "in every chunk": [_event([_choice("stop")], usage={**USAGE, "completion_tokens": 1}), _event([], usage=USAGE)],
}


@pytest.mark.parametrize("options", [None, {"include_usage": False}, {"include_usage": True}])
@pytest.mark.parametrize("stream", STREAMS)
async def test_usage_is_metered_always_and_shown_when_asked(
    gateway_over: Any, events_of: Any, stream: str, options: dict[str, bool] | None
) -> None:
    """One last chunk with usage where the client asked for it, none otherwise; the meter is the same."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.stream(_event([_choice(content="Hi")]), *STREAMS[stream], DONE)

    front, upstream = await gateway_over(respond)
    *chunks, last = events_of((await front.post({"stream": True, "stream_options": options})).content)
    shown = [(chunk["choices"], chunk["usage"]) for chunk in chunks if chunk.get("usage")]
    wanted = options is not None and options["include_usage"]
    assert ([([], USAGE)] if wanted else []) == shown
    assert "[DONE]" == last
    assert all("choices" in chunk for chunk in chunks)
    assert {"include_usage": True} == upstream.requests[0].json["stream_options"]
    row = await front.row()
    assert (7, 2, 0) == (row["prompt_tokens"], row["output_tokens"], row["attempts_made"][0]["estimated"])


def _call(name: str = "", arguments: str = "", **fields: Any) -> dict[str, Any]:
    return {**fields, "type": "function", "function": {**({"name": name} if name else {}), "arguments": arguments}}


CALLS = {
    "one a chunk, all at index 0": [
        [_call("f", '{"a":1}', index=0, id="c1")],
        [_call("g", '{"b":2}', index=0, id="c2")],
        [_call("h", '{"c":3}', index=0, id="c3")],
    ],
    "interleaved": [
        [_call("f", '{"a"', index=0, id="c1"), _call("g", '{"b"', index=1, id="c2")],
        [_call("h", '{"c"', index=2, id="c3")],
        [_call(arguments=":2}", index=1), _call(arguments=":1}", index=0)],
        [_call(arguments=":3}", index=2)],
    ],
    "no id": [
        [_call("f", '{"a":1}', index=0)],
        [_call("g", '{"b":2}', index=1)],
        [_call("h", '{"c":3}', index=2)],
    ],
    "no index": [
        [_call("f", '{"a":', id="c1")],
        [_call(arguments="1}", id="c1")],
        [_call("g", '{"b":2}', id="c2"), _call("h", '{"c":3}', id="c3")],
    ],
    "id and name in every fragment": [
        [_call("f", '{"a":', index=0, id="c1")],
        [_call("f", "1}", index=0, id="c1")],
        [_call("g", '{"b":2}', index=1, id="c2")],
        [_call("h", '{"c":3}', index=2, id="c3")],
    ],
}


def _put_together(events: list[Any]) -> dict[int, dict[str, Any]]:
    """Calls as a client joins them; fails where an id or a name comes twice, or not in the first fragment."""
    calls: dict[int, dict[str, Any]] = {}
    for event in events:
        for choice in event["choices"]:
            for entry in choice["delta"].get("tool_calls", []):
                function = entry["function"]
                if entry["index"] not in calls:
                    calls[entry["index"]] = {"id": entry["id"], "name": function["name"], "arguments": ""}
                else:
                    assert "id" not in entry
                    assert "name" not in function
                calls[entry["index"]]["arguments"] += function.get("arguments", "")
    return calls


@pytest.mark.parametrize("shape", CALLS)
async def test_parallel_tool_calls_stay_apart(gateway_over: Any, events_of: Any, shape: str) -> None:
    """Each call has one index, one id and one name, and arguments that are JSON by themselves."""

    async def respond(_: Any, conversation: Any) -> None:
        fragments = [_event([_choice(tool_calls=calls)]) for calls in CALLS[shape]]
        await conversation.stream(*fragments, _event([_choice("tool_calls")]), DONE)

    front, _ = await gateway_over(respond)
    calls = _put_together(events_of((await front.post({"stream": True})).content)[:-1])
    assert [0, 1, 2] == sorted(calls)
    assert ["f", "g", "h"] == [calls[index]["name"] for index in range(3)]
    assert [{"a": 1}, {"b": 2}, {"c": 3}] == [json.loads(calls[index]["arguments"]) for index in range(3)]
    assert 3 == len({call["id"] for call in calls.values()})


async def test_two_calls_of_the_same_tool_stay_two(gateway_over: Any, events_of: Any) -> None:
    """The same name again, with whole arguments, is a second call."""
    calls = [_call("f", '{"a":1}', index=0), _call("f", '{"a":2}', index=0)]

    async def respond(_: Any, conversation: Any) -> None:
        fragments = [_event([_choice(tool_calls=[call])]) for call in calls]
        await conversation.stream(*fragments, _event([_choice("tool_calls")]), DONE)

    front, _ = await gateway_over(respond)
    joined = _put_together(events_of((await front.post({"stream": True})).content)[:-1])
    assert [{"a": 1}, {"a": 2}] == [json.loads(joined[index]["arguments"]) for index in range(2)]
    assert joined[0]["id"] != joined[1]["id"]
