"""What is true of every answer in Anthropic's format: the official types, and the grammar of a stream's events."""

import json
from typing import Any

import anthropic.types as sdk
from pydantic import TypeAdapter

_MESSAGE = TypeAdapter(sdk.Message)
_EVENT: TypeAdapter[Any] = TypeAdapter(sdk.RawMessageStreamEvent)
_ERROR: TypeAdapter[Any] = TypeAdapter(sdk.ErrorResponse)


def checked_message(body: bytes) -> dict[str, Any]:
    """A whole answer, after the SDK's own types."""
    message: dict[str, Any] = json.loads(body)
    _MESSAGE.validate_python(message)
    return message


def checked_error(body: bytes) -> dict[str, Any]:
    """An error's inner object, after the SDK's own types."""
    envelope = json.loads(body)
    _ERROR.validate_python(envelope)
    error: dict[str, Any] = envelope["error"]
    return error


def checked_events(stream: bytes) -> list[dict[str, Any]]:
    """The events of a stream: named as their data say, each of the SDK's types, in the order that Anthropic promises.

    ``message_start`` once and first; for each block a start, deltas of its kind, and exactly one stop, indices from 0
    without gaps, one block at a time; ``message_delta`` once; ``message_stop`` once and last. Of a call the joined
    input is JSON.
    """
    frames = stream.split(b"\n\n")
    assert frames.pop() == b""
    events = [_named(frame) for frame in frames]
    _check_grammar([event for event in events if event["type"] != "ping"])
    return events


def blocks_of(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The content blocks that the events add up to, as a client puts them together."""
    blocks: list[dict[str, Any]] = []
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "json": ""})
        elif event["type"] == "content_block_delta":
            _grow(blocks[event["index"]], event["delta"])
    for block in blocks:
        told = block.pop("json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(told)
    return blocks


def _grow(block: dict[str, Any], delta: dict[str, Any]) -> None:
    kind = delta["type"]
    if kind == "text_delta":
        block["text"] += delta["text"]
    elif kind == "thinking_delta":
        block["thinking"] += delta["thinking"]
    elif kind == "signature_delta":
        block["signature"] = delta["signature"]
    else:
        block["json"] += delta["partial_json"]


def _named(frame: bytes) -> dict[str, Any]:
    name, data = frame.split(b"\n")
    event: dict[str, Any] = json.loads(data.removeprefix(b"data: "))
    assert name == b"event: " + event["type"].encode()
    if event["type"] != "ping":
        _EVENT.validate_python(event)
    return event


_DELTAS = {
    "text": {"text_delta"},
    "thinking": {"thinking_delta", "signature_delta"},
    "redacted_thinking": set(),
    "tool_use": {"input_json_delta"},
}


def _check_grammar(events: list[dict[str, Any]]) -> None:
    kinds = [event["type"] for event in events]
    assert ["message_start"] == [kind for kind in kinds[:1] if kind == "message_start"]
    assert (1, 1, 1) == tuple(kinds.count(kind) for kind in ("message_start", "message_delta", "message_stop"))
    assert ["message_delta", "message_stop"] == kinds[-2:]
    open_block, begun, told = None, 0, ""
    for event in events[1:-2]:
        if event["type"] == "content_block_start":
            assert (None, begun) == (open_block, event["index"])
            open_block, begun, told = event["content_block"]["type"], begun + 1, ""
        else:
            assert begun - 1 == event["index"]
            assert open_block is not None
            if event["type"] == "content_block_delta":
                assert event["delta"]["type"] in _DELTAS[open_block]
                told += event["delta"].get("partial_json", "")
            else:
                if open_block == "tool_use":
                    assert isinstance(json.loads(told), dict)
                open_block = None
    assert open_block is None
