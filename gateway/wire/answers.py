"""Reads what a client was answered, in whatever format it speaks, as judges see it."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from gateway.conversation import FunctionCall, ToolCall
from gateway.errors import UpstreamError
from gateway.judgement import Answer, Choice
from gateway.price import Usage
from gateway.types import Operation
from gateway.wire.anthropic_reader import anthropic_reader
from gateway.wire.deltas import (
    AnswerStart,
    ChoiceFinish,
    Delta,
    RefusalDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallStart,
    UsageReport,
)
from gateway.wire.ollama_reader import ollama_reader
from gateway.wire.openai_reading import read_openai_answer
from gateway.wire.responses_reading import read_response_answer
from gateway.wire.translation import AnswerReader, ReaderOf

_Calls = dict[tuple[int, int], tuple[str, str, list[str]]]
"""Tool calls by their choice and place: the id, the name, and the arguments piece by piece."""

ReadAnswer = Callable[[bytes, bool], Answer | None]


def read_answer(operation: Operation, data: bytes, *, streamed: bool) -> Answer | None:
    """The answer in ``data``, a whole body or all events of a stream; ``None`` where nobody can read it."""
    reader = _READERS.get(operation)
    return reader(data, streamed) if reader is not None else None


def can_be_judged(operation: Operation) -> bool:
    """Whether answers of an endpoint have anything that a judge could look at."""
    return operation in _READERS


def _through(reader_of: ReaderOf) -> ReadAnswer:
    def read(data: bytes, streamed: bool) -> Answer | None:  # noqa: FBT001  # as `ReaderOf` has it
        reader = reader_of(streamed)
        try:
            deltas = [*reader.feed(data), *_rest(reader)]
        except (UpstreamError, RecursionError):
            return None
        return _gathered(deltas) if reader.error is None else None

    return read


def _rest(reader: AnswerReader) -> list[Delta]:
    return reader.end() if reader.error is None else []


def _gathered(deltas: list[Delta]) -> Answer | None:
    """All that the deltas say, put together."""
    texts: dict[int, list[str]] = {}
    refusals: dict[int, list[str]] = {}
    calls: _Calls = {}
    reasons: dict[int, str] = {}
    usage: Usage | None = None
    model = ""
    for delta in deltas:
        match delta:
            case TextDelta():
                texts.setdefault(delta.choice, []).append(delta.text)
            case RefusalDelta():
                refusals.setdefault(delta.choice, []).append(delta.text)
            case ToolCallStart():
                calls[delta.choice, delta.index] = (delta.id, delta.name, [])
            case ToolCallArguments() if (delta.choice, delta.index) in calls:
                calls[delta.choice, delta.index][2].append(delta.text)
            case ChoiceFinish():
                reasons[delta.choice] = delta.reason
            case UsageReport():
                usage = delta.usage
            case AnswerStart():
                model = delta.model
            case _:
                pass
    made = tuple(
        Choice(
            text="".join(texts.get(at, ())),
            refusal="".join(refusals.get(at, ())),
            tool_calls=_calls_of(at, calls),
            finish_reason=reasons.get(at, ""),
        )
        for at in sorted({*texts, *refusals, *reasons, *(choice for choice, _ in calls)})
    )
    return Answer(choices=made, usage=usage, model=model) if made else None


def _calls_of(at: int, calls: _Calls) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(id=call_id, function=FunctionCall(name=name, arguments="".join(arguments)))
        for (choice, _), (call_id, name, arguments) in sorted(calls.items())
        if choice == at
    )


_READERS: Mapping[Operation, ReadAnswer] = MappingProxyType(
    {
        Operation.CHAT: read_openai_answer,
        Operation.COMPLETION: read_openai_answer,
        Operation.MESSAGES: _through(anthropic_reader),
        Operation.RESPONSE: read_response_answer,
        Operation.OLLAMA_CHAT: _through(ollama_reader),
        Operation.OLLAMA_GENERATE: _through(ollama_reader),
    }
)
