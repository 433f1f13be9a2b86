"""Reads answers in the shape of OpenAI's chat, streamed or whole, as deltas; and those of its completions."""

from typing import Any

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
    RefusalDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallStart,
    UsageReport,
)
from gateway.wire.format import MAX_EVENT_BYTES
from gateway.wire.mould import TextMould, text_mould_of
from gateway.wire.openai_usage import read_usage
from gateway.wire.openai_whole import opened
from gateway.wire.sse import SseEvent, SseParser
from gateway.wire.tool_calls import ToolCallRepair
from gateway.wire.translation import AnswerReader
from gateway.wire.upstream_codes import broken_off, error_inside
from gateway.wire.upstream_json import text_of
from gateway.wire.whole_reader import WholeReader


class _Output(msgspec.Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    thinking_blocks: list[Any] | None = None
    reasoning_details: Any = None
    refusal: Any = None
    tool_calls: list[Any] | None = None
    function_call: Any = None


class _Choice(msgspec.Struct):
    index: Any = 0
    delta: _Output | None = None
    message: _Output | None = None
    text: Any = None
    logprobs: Any = None
    finish_reason: Any = None
    stop_reason: Any = None
    matched_stop: Any = None


class _Answer(msgspec.Struct):
    id: Any = None
    created: Any = None
    model: Any = None
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None
    object: Any = None
    x_groq: Any = None


_ANSWER = msgspec.json.Decoder(_Answer)
_STRING = msgspec.json.Decoder(str)
_ENCODE = msgspec.json.Encoder().encode
_MOST_MOULDS = 8
"""So many events that say some text are looked into, for what comes next to be known by."""


def chat_reader(streamed: bool) -> AnswerReader:  # noqa: FBT001  # the door's signature
    """A reader of one answer; see ``ReaderOf``."""
    return ChatStreamReader() if streamed else WholeReader(_read_whole)


class ChatStreamReader:
    """See ``AnswerReader``."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.error: UpstreamError | None = None
        self._parser = SseParser(max_event_bytes)
        self._content = _Content()
        self._done = False
        self._mould: TextMould | None = None
        self._moulds_left = _MOST_MOULDS
        self._choice = 0

    def feed(self, data: bytes) -> list[Delta]:
        """See ``AnswerReader.feed``."""
        deltas: list[Delta] = []
        if not (self._done or self.error):
            for event in self._parser.feed(data):
                self._take(event, deltas)
        return deltas

    def end(self) -> list[Delta]:
        """See ``AnswerReader.end``: an answer whose every choice has a finish reason is complete."""
        if self._done or self.error is not None:
            return []
        if not self._content.began and not self._parser.partial:
            raise UpstreamInvalid("the upstream closed its stream without an answer")
        if not self._content.complete:
            raise UpstreamTruncated("the upstream closed its stream before the answer was complete")
        self._done = True
        return [AnswerEnd()]

    def _take(self, event: SseEvent, deltas: list[Delta]) -> None:
        data = event.data
        if self._done or self.error is not None or not data:
            return
        if data.strip() == b"[DONE]":
            if not self._content.began:
                raise UpstreamInvalid("the upstream closed its stream without an answer")
            self._done = True
            deltas.append(AnswerEnd())
            return
        if self._mould is not None and event.event != b"error" and self._is_alike(self._mould, data, deltas):
            return
        try:
            chunk = _ANSWER.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise UpstreamInvalid("the upstream sent an event that is no chunk of an answer") from error
        groqs = _groqs(chunk)
        if chunk.error or event.event == b"error" or groqs.get("error"):
            said = msgspec.json.encode(groqs) if groqs.get("error") and not chunk.error else data
            self.error = error_inside(said, "the upstream reported an error inside its stream")
            return
        known = len(deltas)
        self._content.read(chunk, deltas)
        self.error = self._content.broken
        if self._moulds_left and len(deltas) == known + 1:
            self._learn(deltas[known], data)

    def _is_alike(self, mould: TextMould, data: bytes, deltas: list[Delta]) -> bool:
        """Reads an event that says some text, as one before it did that was looked into, and nothing else."""
        text = mould.text(data)
        if text is None:
            return False
        try:
            deltas.append(TextDelta(text=_STRING.decode(text), choice=self._choice))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False  # it is broken, and told as that
        return True

    def _learn(self, said: Delta, data: bytes) -> None:
        """Takes note of how an event looks whose only word is some text."""
        if isinstance(said, TextDelta) and said.logprobs is None:
            self._moulds_left -= 1
            self._choice = said.choice
            self._mould = text_mould_of(data, _ENCODE(said.text))


def _read_whole(body: bytes) -> list[Delta]:
    """All that a whole answer says."""
    answer = opened(body, _ANSWER)
    if not answer.choices:
        raise UpstreamInvalid("the upstream sent an answer without choices")
    deltas: list[Delta] = []
    content = _Content()
    content.read(answer, deltas)
    if content.broken is not None:
        raise content.broken
    deltas.append(AnswerEnd())
    return deltas


class _Content:
    """What a chunk or a whole answer holds; a whole answer is one chunk with messages in place of deltas."""

    def __init__(self) -> None:
        self.began = False
        self.broken: UpstreamError | None = None
        self._started = False
        self._repair = ToolCallRepair()
        self._told: set[int] = set()
        self._open: set[int] = set()
        self._finished: set[int] = set()

    @property
    def complete(self) -> bool:
        """Whether each choice that began has ended."""
        return self.began and not self._open - self._finished

    def read(self, answer: _Answer, deltas: list[Delta]) -> None:
        if not self._started:
            self._started = True
            deltas.append(_start(answer))
        for choice in answer.choices or ():
            self.began = True
            self._choice(choice, deltas)
        usage = read_usage(answer.usage) or read_usage(_groqs(answer).get("usage"))
        if usage is not None:
            deltas.append(UsageReport(usage=usage))

    def _choice(self, choice: _Choice, deltas: list[Delta]) -> None:
        at = choice.index if type(choice.index) is int else 0
        self._open.add(at)
        output = choice.delta or choice.message
        if output is not None:
            self._output(at, output, choice.logprobs, deltas, whole=choice.delta is None)
        elif text := text_of(choice.text):
            deltas.append(TextDelta(text=text, choice=at))
        reason = choice.finish_reason
        if isinstance(reason, str) and reason and at not in self._finished:
            self._finished.add(at)
            self.broken = self.broken or broken_off(reason)
            if self.broken is not None:
                return
            stops = (choice.stop_reason, choice.matched_stop)
            stop = next((it for it in stops if isinstance(it, str) and it), None)
            deltas.append(ChoiceFinish(reason=reason, stop_sequence=stop, choice=at))

    def _output(self, at: int, output: _Output, logprobs: Any, deltas: list[Delta], *, whole: bool) -> None:
        blocks = [block for block in output.thinking_blocks or () if isinstance(block, dict)]
        thought = text_of(output.reasoning_content) or text_of(output.reasoning)
        if thought and not (whole and blocks):  # the blocks of a whole answer say the same, thought by thought
            self._told.add(at)
            deltas.append(ReasoningDelta(text=thought, choice=at))
        for block in blocks or _sealed(output.reasoning_details):
            self._thinking_block(at, block, deltas)
        _content(at, output.content, logprobs, deltas)
        if refusal := text_of(output.refusal):
            deltas.append(RefusalDelta(text=refusal, choice=at))
        calls = output.tool_calls
        if calls is None and isinstance(output.function_call, dict):
            calls = [{"index": 0, "function": output.function_call}]
        if calls:
            self._calls(at, calls, deltas)

    def _thinking_block(self, at: int, block: dict[str, Any], deltas: list[Delta]) -> None:
        if data := text_of(block.get("data")):
            deltas.append(RedactedReasoning(data=data, choice=at))
        thought = text_of(block.get("thinking"))
        if thought and at not in self._told:
            deltas.append(ReasoningDelta(text=thought, choice=at))
        if signature := text_of(block.get("signature")):
            deltas.append(ReasoningSignature(signature=signature, choice=at))

    def _calls(self, at: int, calls: list[Any], deltas: list[Delta]) -> None:
        for entry in self._repair.repair(at, calls) or calls:
            custom = isinstance(entry.get("custom"), dict)
            said = entry.get("custom" if custom else "function") or {}
            index: int = entry["index"]
            if entry.get("id"):
                name = text_of(said.get("name"))
                deltas.append(ToolCallStart(index=index, id=entry["id"], name=name, choice=at, custom=custom))
            if text := text_of(said.get("input" if custom else "arguments")):
                deltas.append(ToolCallArguments(index=index, text=text, choice=at, custom=custom))


def _groqs(answer: _Answer) -> dict[str, Any]:
    """What Groq puts beside OpenAI's fields."""
    return answer.x_groq if isinstance(answer.x_groq, dict) else {}


def _start(answer: _Answer) -> AnswerStart:
    return AnswerStart(
        id=text_of(answer.id),
        model=text_of(answer.model),
        created_unix_s=answer.created if type(answer.created) is int else 0,
    )


def _content(at: int, content: Any, logprobs: Any, deltas: list[Delta]) -> None:
    """Text, or the parts that some providers answer in: of text, and of thoughts (Mistral)."""
    if isinstance(content, str):
        if content or logprobs is not None:
            deltas.append(TextDelta(text=content, choice=at, logprobs=logprobs))
        return
    for part in _list(content):
        if not isinstance(part, dict):
            continue
        if text := text_of(part.get("text")):
            deltas.append(TextDelta(text=text, choice=at))
        texts = [text_of(it.get("text") if isinstance(it, dict) else it) for it in _list(part.get("thinking"))]
        if any(texts):
            deltas.append(ReasoningDelta(text="".join(texts), choice=at))
        if part.get("type") == "thinking" and (signature := text_of(part.get("signature"))):
            deltas.append(ReasoningSignature(signature=signature, choice=at))


def _sealed(details: Any) -> list[dict[str, Any]]:
    """What of OpenRouter's ``reasoning_details`` is not in ``reasoning``: seals, and thoughts that nobody can read."""
    known = [detail for detail in _list(details) if isinstance(detail, dict)]
    return [{name: detail[name] for name in ("signature", "data") if detail.get(name)} for detail in known]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
