"""Reads the bytes of a response, as a client got them, back into what was said: for judges, after the client."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gateway.conversation import FunctionCall, ToolCall
from gateway.errors import UpstreamInvalid
from gateway.judgement import Answer, Choice
from gateway.wire.responses_object import hub_reason, read_response_usage
from gateway.wire.sse import SseParser
from gateway.wire.upstream_json import text_of

_ENDS = frozenset({b"response.completed", b"response.incomplete"})
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""Kinds of calls, each with the field that says what is asked for."""
_DECODE = msgspec.json.Decoder(dict[str, Any]).decode


def read_response_answer(data: bytes, streamed: bool) -> Answer | None:  # noqa: FBT001  # the door's signature
    """The answer in ``data``, a whole response or all events of a stream; ``None`` where it cannot be read."""
    try:
        response = _last(data) if streamed else _DECODE(data)
    except (msgspec.DecodeError, RecursionError, UpstreamInvalid):
        return None
    items = response.get("output") if response is not None else None
    if response is None or not isinstance(items, list):
        return None
    parts = [part for item in items if isinstance(item, dict) for part in _parts(item)]
    choice = Choice(
        text="".join(_texts(parts, "output_text", "text")),
        refusal="".join(_texts(parts, "refusal", "refusal")),
        tool_calls=tuple(
            ToolCall(
                id=text_of(item.get("call_id")),
                function=FunctionCall(
                    name=text_of(item.get("name")), arguments=text_of(item.get(_CALLS[item["type"]]))
                ),
            )
            for item in items
            if isinstance(item, dict) and text_of(item.get("type")) in _CALLS
        ),
        finish_reason=hub_reason(response),
    )
    return Answer(
        choices=(choice,), usage=read_response_usage(response.get("usage")), model=text_of(response.get("model"))
    )


def _last(data: bytes) -> Mapping[str, Any] | None:
    """The response that the last event of a stream holds."""
    for event in SseParser(max(len(data), 1)).feed(data):
        if event.event in _ENDS:
            response = _DECODE(event.data).get("response")
            return response if isinstance(response, dict) else None
    return None


def _parts(item: Mapping[str, Any]) -> list[Any]:
    content = item.get("content")
    return content if item.get("type") == "message" and isinstance(content, list) else []


def _texts(parts: Iterable[Any], kind: str, name: str) -> list[str]:
    return [text_of(part.get(name)) for part in parts if isinstance(part, dict) and part.get("type") == kind]
