"""The texts in a stream of Anthropic's Messages."""

from typing import Any

from gateway.types import ChatRequest
from gateway.wire.anthropic_writer import named_event
from gateway.wire.format import BYTES_PER_TOKEN
from gateway.wire.places import places_in
from gateway.wire.sse import SseEvent
from gateway.wire.stream_texts import Growth, Passing, standing_alone
from gateway.wire.upstream_json import opened_object

_GROWS = {"text": "text", "thinking": "reasoning", "partial_json": "arguments"}
_OF_BLOCKS = {"text": ("text", "text"), "thinking": ("thinking", "reasoning")}


class AnthropicStreamTexts:
    """See ``StreamTexts``. A block is a text; it is over where it stops."""

    __slots__ = ("_open", "_output_bytes")

    def __init__(self, request: ChatRequest) -> None:
        del request  # nothing in it says how to end a stream
        self._open: int | None = None
        self._output_bytes = 0

    def passing(self, event: SseEvent) -> Passing:
        """See ``StreamTexts.passing``."""
        fields = opened_object(event.data)
        index = fields.get("index")
        match fields.get("type"):
            case "content_block_start":
                return Passing(event, _begun(fields.get("content_block"), index), note=index)
            case "content_block_delta":
                delta = fields.get("delta")
                delta = delta if isinstance(delta, dict) else {}
                grown = [
                    Growth(("delta", name), text, kind, (index, name))
                    for name, kind in _GROWS.items()
                    if isinstance(text := delta.get(name), str)
                ]
                return Passing(event, grown or standing_alone(places_in(delta, ("delta",))))
            case "content_block_stop":
                return Passing(event, over=[(index,)])
            case "message_stop":
                return Passing(event, ends_all=True)
        return Passing(event)

    def went(self, passing: Passing) -> None:
        """See ``StreamTexts.went``."""
        if passing.name == b"content_block_start":
            self._open = passing.note if isinstance(passing.note, int) else None
        elif passing.name == b"content_block_stop":
            self._open = None
        self._output_bytes += sum(len(growth.old.encode()) for growth in passing.growths)

    def blocked(self) -> bytes:
        """See ``StreamTexts.blocked``: a refusal, and a count that is ours, by the usual length of a token."""
        ends: list[bytes] = []
        if self._open is not None:
            ends.append(named_event("content_block_stop", {"index": self._open}))
        usage = {"output_tokens": -(-self._output_bytes // BYTES_PER_TOKEN), "estimated": True}
        refused = {"stop_reason": "refusal", "stop_sequence": None}
        ends.append(named_event("message_delta", {"delta": refused, "usage": usage}))
        ends.append(named_event("message_stop", {}))
        return b"".join(ends)


def _begun(block: Any, index: Any) -> list[Growth]:
    """What a block holds where it begins: the beginning of its text, or all of it."""
    if not isinstance(block, dict):
        return []
    if (known := _OF_BLOCKS.get(str(block.get("type")))) is None:
        return standing_alone(places_in(block, ("content_block",)))
    name, kind = known
    text = block.get(name)
    return [Growth(("content_block", name), text, kind, (index, name))] if isinstance(text, str) else []
