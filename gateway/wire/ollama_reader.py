"""Reads answers of Ollama's, to chats and to generations, streamed or whole, as deltas. Calls come whole."""

from typing import Any
from uuid import uuid4

import msgspec

from gateway.errors import UpstreamError, UpstreamInvalid, UpstreamTruncated
from gateway.wire.deltas import (
    AnswerEnd,
    AnswerStart,
    ChoiceFinish,
    Delta,
    ReasoningDelta,
    ReasoningSignature,
    RedactedReasoning,
    TextDelta,
    ToolCallArguments,
    ToolCallStart,
    UsageReport,
)
from gateway.wire.format import MAX_EVENT_BYTES
from gateway.wire.ndjson import LineParser
from gateway.wire.ollama_counts import EXTENSION, read_counts
from gateway.wire.translation import AnswerReader
from gateway.wire.upstream_codes import error_inside
from gateway.wire.upstream_json import Fields, object_at, objects, opened_object, text_at


def ollama_reader(streamed: bool) -> AnswerReader:  # noqa: FBT001  # the door's signature
    """A reader of one answer; see ``ReaderOf``."""
    return OllamaStreamReader() if streamed else OllamaWholeReader()


class _Pieces:
    """What both have in common: lines, one after the other, as deltas."""

    def __init__(self) -> None:
        self.error: UpstreamError | None = None
        self._began = False
        self._done = False
        self._calls = 0

    def _take(self, data: bytes, deltas: list[Delta]) -> None:
        fields = opened_object(data)
        if fields.get("error"):
            self.error = error_inside(data, "the upstream reported an error in place of an answer")
            return
        if not self._began:
            self._began = True
            deltas.append(AnswerStart(model=text_at(fields, "model")))
        said = object_at(fields, "message") or fields
        self._thoughts(said, deltas)
        logprobs = fields.get("logprobs")
        told = {"content": logprobs} if isinstance(logprobs, list) and logprobs else None
        text = text_at(said, "content") or text_at(fields, "response")
        if text or told is not None:
            deltas.append(TextDelta(text=text, logprobs=told))
        for call in objects(said.get("tool_calls")):
            self._call(call, deltas)
        if fields.get("done") is True:
            self._finish(fields, deltas)

    def _thoughts(self, said: Fields, deltas: list[Delta]) -> None:
        if thought := text_at(said, "thinking"):
            deltas.append(ReasoningDelta(text=thought))
        for block in objects(said.get("thinking_blocks")):
            if data := text_at(block, "data"):
                deltas.append(RedactedReasoning(data=data))
            elif signature := text_at(block, "signature"):
                deltas.append(ReasoningSignature(signature=signature))

    def _call(self, call: Fields, deltas: list[Delta]) -> None:
        function = object_at(call, "function")
        name = text_at(function, "name")
        if not name:
            raise UpstreamInvalid("the upstream sent a call without a name")
        index, self._calls = self._calls, self._calls + 1
        deltas.append(ToolCallStart(index=index, id=text_at(call, "id") or f"call_{uuid4().hex[:24]}", name=name))
        deltas.append(ToolCallArguments(index=index, text=_arguments(function.get("arguments"))))

    def _finish(self, fields: Fields, deltas: list[Delta]) -> None:
        self._done = True
        usage = read_counts(fields.get("prompt_eval_count"), fields.get("eval_count"), fields.get(EXTENSION))
        if usage is not None:
            deltas.append(UsageReport(usage=usage))
        reason = text_at(fields, "done_reason") or "stop"
        deltas += [ChoiceFinish(reason="tool_calls" if self._calls and reason == "stop" else reason), AnswerEnd()]

    def _end(self) -> list[Delta]:
        if self.error is not None:
            return []
        if not self._began:
            raise UpstreamInvalid("the upstream closed its stream without an answer")
        if not self._done:
            raise UpstreamTruncated("the upstream closed its stream before the answer was complete")
        return []


class OllamaStreamReader(_Pieces):
    """See ``AnswerReader``."""

    def __init__(self, max_line_bytes: int = MAX_EVENT_BYTES) -> None:
        super().__init__()
        self._lines = LineParser(max_line_bytes)

    def feed(self, data: bytes) -> list[Delta]:
        """See ``AnswerReader.feed``."""
        deltas: list[Delta] = []
        for line in self._lines.feed(data):
            if self.error is None and not self._done:
                self._take(line, deltas)
        return deltas

    def end(self) -> list[Delta]:
        """See ``AnswerReader.end``: the last line may lack its end."""
        if self.error is not None or self._done:
            return []
        deltas: list[Delta] = []
        if rest := self._lines.rest():
            try:
                self._take(rest, deltas)
            except UpstreamInvalid as error:
                raise UpstreamTruncated("the upstream closed its stream in the middle of a line") from error
        return deltas + self._end()


class OllamaWholeReader(_Pieces):
    """See ``AnswerReader``: collects the body, which is read at its end."""

    def __init__(self) -> None:
        super().__init__()
        self._bytes: list[bytes] = []

    def feed(self, data: bytes) -> list[Delta]:
        """See ``AnswerReader.feed``."""
        self._bytes.append(data)
        return []

    def end(self) -> list[Delta]:
        """See ``AnswerReader.end``."""
        body = b"".join(self._bytes)
        if not body.strip():
            raise UpstreamInvalid("the upstream sent an empty answer")
        deltas: list[Delta] = []
        self._take(body, deltas)
        if self.error is None and not self._done:
            raise UpstreamInvalid("the upstream sent an answer that is not done")
        return deltas


def _arguments(value: Any) -> str:
    """The arguments as JSON text: an object, or what a server wrote in its place."""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value if isinstance(value, dict) else {}).decode()
