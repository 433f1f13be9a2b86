"""What the engine says, put together as an answer on the wire: streamed or whole."""

from collections.abc import Sequence
from typing import Protocol

from embedded_engine.client import EngineDied, FrameTooLarge, Generation, ProtocolError, RequestFailed
from embedded_engine.messages import Accepted, Done, Text
from gateway.errors import UpstreamError, UpstreamFailed, UpstreamRateLimited, UpstreamRefused
from gateway.ports import Sink
from gateway.types import Call, Operation, Usage
from gateway.wire.openai_answer import StreamWriter, whole_answer

_REFUSALS = frozenset({"invalid_request", "invalid_messages", "no_chat_template", "context_length_exceeded"})
_QUEUE_FULL_RETRY_S = 1.0


class Answer(Protocol):
    """An answer under way. Each verb returns the bytes that are due now, possibly none."""

    def open(self, choice: int) -> bytes:
        """A choice begins."""
        ...

    def text(self, choice: int, text: str) -> bytes:
        """A choice goes on."""
        ...

    def finish(self, choice: int, reason: str) -> bytes:
        """A choice is over."""
        ...

    def end(self, usage: Usage) -> bytes:
        """All choices are over."""
        ...


def answer_to(call: Call, created_unix_s: float) -> Answer:
    """The answer in the form that the request asks for."""
    return _Streamed(call, int(created_unix_s)) if call.request.stream else _Whole(call, int(created_unix_s))


async def pour(events: Generation, answer: Answer, sink: Sink, choices: range, *, streamed: bool) -> Usage:
    """Pushes what the engine says of one prompt, whose choices bear these numbers; returns the tokens it took.

    The sink begins when the engine has accepted the first prompt: what it refuses has no answer.

    Raises:
        RequestFailed: the engine refused or failed the request.
        EngineDied: its process is gone.
    """
    prompt_tokens = output_tokens = 0
    async for event in events:
        match event:
            case Accepted():
                prompt_tokens = event.prompt_tokens
                if choices.start == 0:
                    sink.begin(streamed=streamed)
                due = b"".join(answer.open(choice) for choice in choices)
            case Text():
                due = answer.text(choices[event.choice], event.text)
            case Done():
                output_tokens += event.completion_tokens
                due = answer.finish(choices[event.choice], event.reason)
        if due:
            await sink.push(due)
    return Usage(prompt_tokens=prompt_tokens, output_tokens=output_tokens)


def translated(error: RequestFailed | EngineDied | ProtocolError) -> UpstreamError:
    """The error of our tree for one of the engine's."""
    match error:
        case RequestFailed():
            return _from_failed(error)
        case EngineDied():
            return UpstreamFailed("the engine died while it answered")
        case FrameTooLarge():
            return UpstreamRefused("the request is too large for the engine", http_status=413)
        case ProtocolError():
            return UpstreamRefused(f"the engine cannot take this request: {error}", http_status=400)


def _from_failed(error: RequestFailed) -> UpstreamError:
    if error.code in _REFUSALS:
        return UpstreamRefused(str(error), http_status=400, upstream_code=error.code, param=error.param)
    if error.code == "queue_full":
        return UpstreamRateLimited(str(error), upstream_code=error.code, retry_after_s=_QUEUE_FULL_RETRY_S)
    return UpstreamFailed(str(error), upstream_code=error.code)


class _Streamed:
    def __init__(self, call: Call, created_unix_s: int) -> None:
        self._writer = StreamWriter(call.request.arrival.operation, _id(call), call.model, created_unix_s)

    def open(self, choice: int) -> bytes:
        return self._writer.opening(choice)

    def text(self, choice: int, text: str) -> bytes:
        return self._writer.text(choice, text)

    def finish(self, choice: int, reason: str) -> bytes:
        return self._writer.finish(choice, reason)

    def end(self, usage: Usage) -> bytes:
        return self._writer.usage(usage) + self._writer.done()


class _Whole:
    def __init__(self, call: Call, created_unix_s: int) -> None:
        self._call = call
        self._created_unix_s = created_unix_s
        self._texts: dict[int, list[str]] = {}
        self._reasons: dict[int, str] = {}

    def open(self, choice: int) -> bytes:
        self._texts[choice] = []
        return b""

    def text(self, choice: int, text: str) -> bytes:
        self._texts[choice].append(text)
        return b""

    def finish(self, choice: int, reason: str) -> bytes:
        self._reasons[choice] = reason
        return b""

    def end(self, usage: Usage) -> bytes:
        call, operation = self._call, self._call.request.arrival.operation
        return whole_answer(operation, _id(call), call.model, self._created_unix_s, self._choices(), usage)

    def _choices(self) -> Sequence[tuple[str, str]]:
        return [("".join(text), self._reasons[choice]) for choice, text in sorted(self._texts.items())]


def _id(call: Call) -> str:
    kind = "chatcmpl" if call.request.arrival.operation is Operation.CHAT else "cmpl"
    return f"{kind}-{call.request.arrival.id}"
