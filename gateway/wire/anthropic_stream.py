"""One look at a stream of Anthropic's Messages as its bytes pass.

Once something visible has gone by, events with more of a block go on as they came; only ``message_delta``,
``message_stop`` and errors are parsed.
"""

import re
from typing import Any

import msgspec

from gateway.errors import UpstreamInvalid, UpstreamTruncated
from gateway.wire.anthropic_reasons import HUB_REASONS
from gateway.wire.anthropic_usage import AnthropicCounts, anthropic_usage
from gateway.wire.format import Estimate
from gateway.wire.sse import SseEvent, SseParser, frame
from gateway.wire.stream_look import StreamLook
from gateway.wire.upstream_codes import error_inside

_DELTA = b"event: content_block_delta\ndata: "
_NOT_OF_BLOCKS = re.compile(rb"\nevent: (?!content_block_)")
_ENVELOPE_BYTES = len(b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}')
_FRAME_BYTES = len(_DELTA) + 2
_KINDS = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
        "error",
    }
)


class _Block(msgspec.Struct):
    type: Any = None


class _Delta(msgspec.Struct):
    type: Any = None
    text: Any = None
    thinking: Any = None
    partial_json: Any = None
    stop_reason: Any = None


class _Message(msgspec.Struct):
    model: Any = None
    usage: Any = None


class _Event(msgspec.Struct):
    type: Any = None
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: Any = None


_EVENT = msgspec.json.Decoder(_Event)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class AnthropicStream(StreamLook):
    """See ``StreamView``. A stream that is complete without its last event gets it.

    Args:
        max_event_bytes: the longest event that is let through.
        estimate: the counts of an answer whose upstream does not count; Anthropic's clients expect some.
    """

    __slots__ = (
        "_began",
        "_counts",
        "_estimate",
        "_flows",
        "_max_event_bytes",
        "_parser",
    )

    def __init__(self, *, max_event_bytes: int, estimate: Estimate) -> None:
        super().__init__()
        self._began = False
        self._flows = False  # whole events may go on as they came
        self._counts = AnthropicCounts()
        self._parser = SseParser(max_event_bytes)
        self._max_event_bytes = max_event_bytes
        self._estimate = estimate

    def feed(self, data: bytes) -> bytes:
        """See ``StreamView.feed``."""
        if self._flows and self._is_plain(data):
            return data
        if self.over:
            return b""
        out = b"".join([self._event(event) for event in self._parser.feed(data)])
        self._flows = self.visible and self._parser.idle and not self.over
        return out

    def end(self) -> bytes:
        """See ``StreamView.end``: an answer with a stop reason is complete."""
        if self.over:
            return b""
        if not self._began and not self._parser.partial:
            raise UpstreamInvalid("the upstream closed its stream without an answer")
        if not self.finish_reason:
            raise UpstreamTruncated("the upstream closed its stream before the answer was complete")
        self.done, self._flows = True, False
        return frame(b'{"type":"message_stop"}', b"message_stop")

    def _is_plain(self, data: bytes) -> bool:
        """Whether these are whole events of blocks and nothing else, as Anthropic itself writes them; counts them."""
        if not data.startswith(_DELTA) or not data.endswith(b"\n\n") or len(data) > self._max_event_bytes:
            return False
        events = 1
        if data.find(b"\n", len(_DELTA)) != len(data) - 2:
            events = data.count(b"\n\n")
            regular = data.count(b"\n\nevent: ") == events - 1 and data.count(b"\n") == events * 3
            if not regular or _NOT_OF_BLOCKS.search(data):
                return False
        if data.count(b"}\n\n") != events or data.find(b"\r") >= 0:
            return False
        self.output_bytes += max(len(data) - events * (_FRAME_BYTES + _ENVELOPE_BYTES), events)
        return True

    def _event(self, event: SseEvent) -> bytes:
        data = event.data
        if self.over or not data:
            return b""
        if self.visible and event.event == b"content_block_delta" and data.endswith(b"}"):
            self.output_bytes += max(len(data) - _ENVELOPE_BYTES, 1)
            return frame(data, event.event)
        try:
            fields = _EVENT.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise UpstreamInvalid("the upstream sent an event that is no part of an answer") from error
        said = fields.type
        kind = said if isinstance(said, str) and said in _KINDS else event.event.decode("utf-8", "replace")
        if kind == "error":
            self.error = error_inside(data, "the upstream reported an error inside its stream")
            return b""
        data = self._look(kind, fields, data)
        return frame(data, kind.encode() or b"message")

    def _look(self, kind: str, fields: _Event, data: bytes) -> bytes:
        delta = fields.delta
        self._began = self._began or kind != "ping"
        match kind:
            case "message_start" if fields.message is not None:
                self.model = fields.message.model if isinstance(fields.message.model, str) else ""
                self._counts.take(fields.message.usage)
            case "content_block_start":
                self.visible = self.visible or not _grows(fields.content_block)
            case "content_block_delta" if delta is not None:
                shown = next((it for it in (delta.text, delta.thinking, delta.partial_json) if isinstance(it, str)), "")
                self.output_bytes += len(shown.encode())
                self.visible = self.visible or bool(shown)
            case "message_delta" if delta is not None:
                return self._finish(delta, fields.usage, data)
            case "message_stop":
                self.done = True
        return data

    def _finish(self, delta: _Delta, usage: Any, data: bytes) -> bytes:
        if isinstance(delta.stop_reason, str) and delta.stop_reason:
            self.finish_reason = HUB_REASONS.get(delta.stop_reason, delta.stop_reason)
            self.visible = True
        if isinstance(usage, dict) and "output_tokens" in usage:
            self._counts.take(usage)
            self.usage = None if self._counts.estimated else self._counts.usage
            return data
        told = anthropic_usage(self._estimate(self.output_bytes))
        return msgspec.json.encode({**_FIELDS.decode(data), "usage": told})


def _grows(block: _Block | None) -> bool:
    """Whether a block begins empty: what it will say comes in deltas."""
    return block is None or block.type == "text" or block.type == "thinking"  # noqa: PLR1714  # it may be a list
