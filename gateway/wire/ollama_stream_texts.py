"""The texts in a stream of Ollama's: of a chat, or of a generation."""

from time import time
from typing import Any

import msgspec

from gateway.types import ChatRequest, Operation
from gateway.wire.json_structure import tells_a_name_twice
from gateway.wire.ndjson import LineParser
from gateway.wire.ollama_counts import utc
from gateway.wire.places import places_in
from gateway.wire.sse import SseEvent
from gateway.wire.stream_texts import Growth, Passing, standing_alone
from gateway.wire.upstream_json import opened_object

_ENCODE = msgspec.json.Encoder().encode
_SAID = (("content", "text"), ("response", "text"), ("thinking", "reasoning"))
_THOUGHTS = "thinking"


class LineEvents:
    """Lines as events without a name."""

    def __init__(self, max_line_bytes: int) -> None:
        self._lines = LineParser(max_line_bytes)

    def feed(self, data: bytes) -> list[SseEvent]:
        """The lines that ``data`` completes."""
        return [SseEvent(b"", line) for line in self._lines.feed(data)]


class OllamaStreamTexts:
    """See ``StreamTexts``. Thoughts are over where the text begins; a call comes whole, in one line."""

    __slots__ = ("_model", "_operation")

    def __init__(self, request: ChatRequest) -> None:
        self._operation = request.arrival.operation
        self._model: Any = ""

    def passing(self, event: SseEvent) -> Passing:
        """See ``StreamTexts.passing``."""
        line = opened_object(event.data)
        inside = line.get("message")
        message, path = (inside, ("message",)) if isinstance(inside, dict) else (line, ())
        growths = [
            Growth((*path, name), text, kind, (name,))
            for name, kind in _SAID
            if isinstance(text := message.get(name), str)
        ]
        calls = places_in({"tool_calls": message.get("tool_calls")}, path)
        if calls and tells_a_name_twice(event.data, line):  # arguments stand there as a model wrote them
            event = SseEvent(event.event, _ENCODE(line))
        speaks = any(growth.old and growth.kind == "text" for growth in growths) or bool(calls)
        return Passing(
            event,
            growths + standing_alone(calls),
            over=[(_THOUGHTS,)] if speaks else (),
            ends_all=line.get("done") is True,
            is_line=True,
            note=line.get("model"),
        )

    def went(self, passing: Passing) -> None:
        """See ``StreamTexts.went``."""
        self._model = self._model or passing.note or ""

    def blocked(self) -> bytes:
        """See ``StreamTexts.blocked``: a last line, of an answer that a filter stopped."""
        chats = self._operation is Operation.OLLAMA_CHAT
        said: dict[str, Any] = {"message": {"role": "assistant", "content": ""}} if chats else {"response": ""}
        last = {"model": self._model, "created_at": utc(time()), **said, "done": True, "done_reason": "content_filter"}
        return _ENCODE(last) + b"\n"
