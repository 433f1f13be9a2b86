"""The texts in a stream of OpenAI's Responses, in which each is told again where it is over."""

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.types import ChatRequest
from gateway.wire.places import places_in
from gateway.wire.sse import SseEvent, frame
from gateway.wire.stream_texts import Channel, Growth, Passing, standing_alone
from gateway.wire.upstream_json import opened_object

_ENCODE = msgspec.json.Encoder().encode
_STATES = frozenset({"response.created", "response.in_progress", "response.queued"})
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})


class _Last(msgspec.Struct):
    response: msgspec.Raw = msgspec.Raw()


_LAST = msgspec.json.Decoder(_Last)
_AGAIN = ("text", "refusal", "arguments", "input", "code", "transcript")
_KINDS = ("arguments", "refusal", "reasoning")


class ResponsesStreamTexts:
    """See ``StreamTexts``. ``response.*.delta`` grow, and what is told whole stands alone."""

    __slots__ = ("_items", "_number", "_response")

    def __init__(self, request: ChatRequest) -> None:
        del request  # nothing in it says how to end a stream
        self._response: dict[str, Any] = {}
        self._items: list[Any] = []
        self._number = 0

    def passing(self, event: SseEvent) -> Passing:
        """See ``StreamTexts.passing``."""
        fields = opened_object(event.data)
        name = str(fields.get("type") or event.event.decode("utf-8", "replace"))
        channel = _channel(fields, name.removesuffix(".delta").removesuffix(".done"))
        if name.endswith(".delta"):
            text = fields.get("delta")
            speaks = isinstance(text, str) and not name.endswith(".audio.delta")
            growths = [Growth(("delta",), str(text), _kind(name), channel)] if speaks else []
            return Passing(event, growths, note=(fields.get("sequence_number"), ""))
        told = [
            Growth((member,), text, _kind(name)) for member in _AGAIN if isinstance(text := fields.get(member), str)
        ]
        for member in ("part", "item", "annotation"):
            told += standing_alone(places_in(fields.get(member), (member,)))
        response = fields.get("response")
        if isinstance(response, dict):
            told += standing_alone(places_in({"output": response.get("output")}, ("response",)))
        over = [channel[:1] if name == "response.output_item.done" else channel] if name.endswith(".done") else []
        return Passing(event, told, over=over, ends_all=name in _ENDS, note=(fields.get("sequence_number"), name))

    def went(self, passing: Passing) -> None:
        """See ``StreamTexts.went``."""
        number, name = passing.note
        self._number = number + 1 if isinstance(number, int) else self._number + 1
        if name in _STATES:
            response = opened_object(passing.data).get("response")
            self._response = response if isinstance(response, dict) else self._response
        elif name == "response.output_item.done":
            self._items.append(opened_object(passing.data).get("item"))

    def blocked(self) -> bytes:
        """See ``StreamTexts.blocked``: the answer as far as its items were finished, stopped by a filter."""
        response = {
            **self._response,
            "status": "incomplete",
            "incomplete_details": {"reason": "content_filter"},
            "output": self._items,
        }
        event = {"type": "response.incomplete", "sequence_number": self._number, "response": response}
        return frame(_ENCODE(event), b"response.incomplete")


def _channel(fields: Mapping[str, Any], stem: str) -> Channel:
    part = fields.get("content_index", fields.get("summary_index"))
    return fields.get("output_index"), stem, part


def _kind(name: str) -> str:
    return next((kind for kind in _KINDS if kind in name), "text")


def response_in(data: bytes) -> bytes | None:
    """The response in the last event of a stream, or ``None`` where it has none."""
    try:
        return bytes(_LAST.decode(data).response) or None
    except msgspec.DecodeError:
        return None
