"""Reads answers of Gemini's ``generateContent`` and ``streamGenerateContent``, as deltas.

A stream is a series of answers, each with what is new; nothing marks its end but the connection's. Calls come whole.
"""

from typing import Any

import msgspec

from gateway.errors import UpstreamError, UpstreamInvalid, UpstreamTruncated
from gateway.price import Usage
from gateway.wire.deltas import (
    AnswerEnd,
    AnswerStart,
    ChoiceFinish,
    Delta,
    ReasoningDelta,
    ReasoningSignature,
    TextDelta,
    ToolCallArguments,
    ToolCallStart,
    UsageReport,
)
from gateway.wire.format import MAX_EVENT_BYTES
from gateway.wire.sse import SseParser
from gateway.wire.translation import AnswerReader
from gateway.wire.upstream_codes import error_inside
from gateway.wire.upstream_json import Fields, objects, opened_object, text_at, tokens_at

_FILTERED = frozenset(
    {
        "BLOCKLIST",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_SAFETY",
        "LANGUAGE",
        "PROHIBITED_CONTENT",
        "RECITATION",
        "SAFETY",
        "SPII",
    }
)
_BROKEN = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"})


def gemini_reader(streamed: bool) -> AnswerReader:  # noqa: FBT001  # the door's signature
    """A reader of one answer; see ``ReaderOf``."""
    return GeminiStreamReader() if streamed else GeminiWholeReader()


class _Pieces:
    """What both have in common: answers, one after the other, as deltas."""

    def __init__(self) -> None:
        self.error: UpstreamError | None = None
        self._began = False
        self._id = ""
        self._calls: dict[int, int] = {}
        self._finished: set[int] = set()
        self._open: set[int] = set()
        self._usage: Usage | None = None

    def _take(self, data: bytes, deltas: list[Delta]) -> None:
        fields = opened_object(data)
        if fields.get("error"):
            self.error = error_inside(data, "the upstream reported an error in place of an answer")
            return
        if not self._began:
            self._began = True
            self._id = text_at(fields, "responseId")
            deltas.append(AnswerStart(id=self._id, model=text_at(fields, "modelVersion")))
        candidates = objects(fields.get("candidates"))
        for candidate in candidates:
            self._candidate(candidate, deltas)
        blocked = fields.get("promptFeedback")
        if not candidates and isinstance(blocked, dict) and blocked.get("blockReason"):
            self._finished.add(0)
            deltas.append(ChoiceFinish(reason="content_filter"))
        usage = _usage(fields.get("usageMetadata"))
        if usage is not None and usage != self._usage:
            self._usage = usage
            deltas.append(UsageReport(usage=usage))

    def _candidate(self, candidate: Fields, deltas: list[Delta]) -> None:
        index = candidate.get("index")
        choice = index if type(index) is int else 0
        self._open.add(choice)
        content = candidate.get("content")
        for part in objects(content.get("parts") if isinstance(content, dict) else None):
            self._part(part, choice, deltas)
        reason = text_at(candidate, "finishReason")
        if reason and choice not in self._finished:
            self._finished.add(choice)
            deltas.append(ChoiceFinish(reason=self._reason(reason, choice), choice=choice))

    def _part(self, part: Fields, choice: int, deltas: list[Delta]) -> None:
        text, call = text_at(part, "text"), part.get("functionCall")
        if text:
            thought = part.get("thought") is True
            deltas.append(ReasoningDelta(text=text, choice=choice) if thought else TextDelta(text=text, choice=choice))
        if signature := text_at(part, "thoughtSignature"):
            deltas.append(ReasoningSignature(signature=signature, choice=choice))
        if isinstance(call, dict):
            index = self._calls[choice] = self._calls.get(choice, -1) + 1
            name = text_at(call, "name")
            if not name:
                raise UpstreamInvalid("the upstream sent a call without a name")
            call_id = text_at(call, "id") or f"call_{self._id or 'gemini'}_{choice}_{index}"
            arguments = msgspec.json.encode(call.get("args") or {}).decode()
            deltas.append(ToolCallStart(index=index, id=call_id, name=name, choice=choice))
            deltas.append(ToolCallArguments(index=index, text=arguments, choice=choice))
        elif not text and not signature and part.keys() - {"text", "thought"}:
            raise UpstreamInvalid("the upstream's answer has a part that the client's format has no place for")

    def _reason(self, reason: str, choice: int) -> str:
        """Gemini's word in the hub's; a call that the model could not write is no answer.

        Raises:
            UpstreamInvalid: so it was.
        """
        if reason in _BROKEN:
            raise UpstreamInvalid("the model wrote a call that is none")
        if reason == "STOP":
            return "tool_calls" if choice in self._calls else "stop"
        if reason == "MAX_TOKENS":
            return "length"
        return "content_filter" if reason in _FILTERED else reason.lower()

    def _end(self) -> list[Delta]:
        if not self._began:
            raise UpstreamInvalid("the upstream closed its stream without an answer")
        if not self._finished or self._open - self._finished:
            raise UpstreamTruncated("the upstream closed its stream before the answer was complete")
        return [AnswerEnd()]


class GeminiStreamReader(_Pieces):
    """See ``AnswerReader``."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        super().__init__()
        self._parser = SseParser(max_event_bytes)

    def feed(self, data: bytes) -> list[Delta]:
        """See ``AnswerReader.feed``."""
        deltas: list[Delta] = []
        for event in self._parser.feed(data):
            if self.error is None:
                self._take(event.data, deltas)
        return deltas

    def end(self) -> list[Delta]:
        """See ``AnswerReader.end``."""
        return [] if self.error is not None else self._end()


class GeminiWholeReader(_Pieces):
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
        return deltas if self.error is not None else deltas + self._end()


def _usage(value: Any) -> Usage | None:
    """The counts, whose candidates leave out what was thought; ours includes it."""
    if not isinstance(value, dict) or "promptTokenCount" not in value:
        return None
    thought_tokens = tokens_at(value, "thoughtsTokenCount")
    prompt_tokens = tokens_at(value, "promptTokenCount") + tokens_at(value, "toolUsePromptTokenCount")
    return Usage(
        prompt_tokens=prompt_tokens,
        output_tokens=tokens_at(value, "candidatesTokenCount") + thought_tokens,
        cached_tokens=min(tokens_at(value, "cachedContentTokenCount"), prompt_tokens),
        reasoning_tokens=thought_tokens,
    )
