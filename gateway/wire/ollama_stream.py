"""One look at a stream of Ollama's as its lines pass: ``/api/chat`` and ``/api/generate`` alike."""

from typing import Any

import msgspec
from msgspec import Raw

from gateway.errors import UpstreamInvalid, UpstreamTruncated
from gateway.price import Usage
from gateway.wire.ndjson import LineParser
from gateway.wire.ollama_counts import read_counts
from gateway.wire.openai_fields import text_bytes
from gateway.wire.stream_look import StreamLook
from gateway.wire.upstream_codes import error_inside
from gateway.wire.upstream_json import text_of


class Said(msgspec.Struct):
    """What a line says, in a chat's ``message`` or beside it in a generation."""

    content: Any = None
    thinking: Any = None
    tool_calls: Raw = Raw()


class Line(msgspec.Struct):
    """A line, or a whole answer."""

    model: Any = None
    message: Said | None = None
    response: Any = None
    thinking: Any = None
    tool_calls: Raw = Raw()
    done: Any = None
    done_reason: Any = None
    prompt_eval_count: Any = None
    eval_count: Any = None
    headrace: Any = None
    error: Any = None

    def shown_bytes(self) -> int:
        """The length of what it shows: text, thoughts, and calls as JSON."""
        said = self.message or Said()
        texts = (said.content, said.thinking, self.response, self.thinking)
        calls = (len(bytes(it)) for it in (said.tool_calls, self.tool_calls) if bytes(it) not in {b"", b"null", b"[]"})
        return sum(text_bytes(text_of(text)) for text in texts) + sum(calls)

    def usage(self) -> Usage | None:
        """What it counts."""
        return read_counts(self.prompt_eval_count, self.eval_count, self.headrace)

    def reason(self) -> str:
        """Why the answer ended, where this ends it; empty where it goes on."""
        return (text_of(self.done_reason) or "stop") if self.done is True else ""


_LINE = msgspec.json.Decoder(Line)


def opened_line(data: bytes) -> Line:
    """The line in ``data``.

    Raises:
        UpstreamInvalid: it is none.
    """
    try:
        return _LINE.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UpstreamInvalid("the upstream sent what is no part of an answer") from error


class OllamaStream(StreamLook):
    """See ``StreamView``. Counts that are only estimated are left to who knows the prompt better.

    Args:
        max_line_bytes: the longest line that is let through.
    """

    __slots__ = ("_began", "_lines")

    def __init__(self, *, max_line_bytes: int) -> None:
        super().__init__()
        self._began = False
        self._lines = LineParser(max_line_bytes)

    def feed(self, data: bytes) -> bytes:
        """See ``StreamView.feed``."""
        if self.over:
            return b""
        return b"".join([self._line(line) for line in self._lines.feed(data)])

    def end(self) -> bytes:
        """See ``StreamView.end``: the last line may lack its end."""
        if self.over:
            return b""
        rest = self._lines.rest()
        if not self._began and not rest:
            raise UpstreamInvalid("the upstream closed its stream without an answer")
        try:
            last = self._line(rest) if rest else b""
        except UpstreamInvalid:
            last = b""
        if not self.done and self.error is None:
            raise UpstreamTruncated("the upstream closed its stream before the answer was complete")
        return last

    def _line(self, data: bytes) -> bytes:
        if self.over:
            return b""
        line = opened_line(data)
        if line.error:
            self.error = error_inside(data, "the upstream reported an error inside its stream")
            return b""
        if not self._began:
            self._began = True
            self.model = text_of(line.model)
        shown_bytes = line.shown_bytes()
        self.output_bytes += shown_bytes
        self.finish_reason = line.reason()
        self.done = bool(self.finish_reason)
        self.visible = self.visible or self.done or shown_bytes > 0
        if self.done:
            usage = line.usage()
            self.usage = None if usage is None or usage.estimated else usage
        return data + b"\n"
