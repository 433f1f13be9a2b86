"""What the engine says, put together as an answer on the wire: streamed or whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from backends._engine_account import Account
from backends._engine_logprobs import chat_logprobs, completion_logprobs
from embedded_engine.client import EngineDied, FrameTooLarge, Generation, ProtocolError, RequestFailed
from embedded_engine.likelihoods import TokenLogprob
from embedded_engine.messages import Accepted, Done, Echo, Text
from embedded_engine.turns import CallPiece
from gateway.errors import (
    UpstreamContextExceeded,
    UpstreamError,
    UpstreamFailed,
    UpstreamRateLimited,
    UpstreamRefused,
    UpstreamTimeout,
)
from gateway.ports import Sink
from gateway.types import Call, Operation
from gateway.wire.openai_answer import Answered, Called, StreamWriter, whole_answer

_REFUSALS: Mapping[str, type[UpstreamRefused]] = {
    "invalid_request": UpstreamRefused,
    "invalid_messages": UpstreamRefused,
    "no_chat_template": UpstreamRefused,
    "context_length_exceeded": UpstreamContextExceeded,
}
_QUEUE_FULL_RETRY_S = 1.0
_NOTHING: Mapping[str, Any] = {}


class Answer(Protocol):
    """An answer under way. Each verb returns the bytes that are due now, possibly none."""

    def open(self, choice: int) -> bytes:
        """A choice begins."""
        ...

    def say(self, choice: int, text: Text | Echo) -> bytes:
        """A choice goes on."""
        ...

    def finish(self, choice: int, done: Done, beside: Mapping[str, Any]) -> bytes:
        """A choice is over; the last one has the answer's measurements beside it."""
        ...

    def end(self, account: Account) -> bytes:
        """All choices are over."""
        ...


def answer_to(call: Call, created_unix_s: float) -> Answer:
    """The answer in the form that the request asks for."""
    return _Streamed(call, int(created_unix_s)) if call.request.stream else _Whole(call, int(created_unix_s))


async def pour(events: Generation, answer: Answer, sink: Sink, choices: range, account: Account) -> None:
    """Pushes what the engine says of one prompt, whose choices bear these numbers; the tokens go to the account.

    The sink begins when the engine has accepted the first prompt: what it refuses has no answer.

    Raises:
        RequestFailed: the engine refused or failed the request.
        EngineDied: its process is gone.
    """
    async for event in events:
        match event:
            case Accepted():
                account.accepted(event)
                if choices.start == 0:
                    sink.begin(streamed=isinstance(answer, _Streamed))
                due = b"".join(answer.open(choice) for choice in choices)
            case Echo():
                due = b"".join(answer.say(choice, event) for choice in choices)
            case Text():
                due = answer.say(choices[event.choice], event)
            case Done():
                account.done(event)
                beside = _NOTHING if account.unfinished_choices else account.measurements()
                due = answer.finish(choices[event.choice], event, beside)
        if due:
            await sink.push(due)


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
        return _REFUSALS[error.code](str(error), http_status=400, upstream_code=error.code, param=error.param)
    if error.code == "queue_full":
        return UpstreamRateLimited(str(error), upstream_code=error.code, retry_after_s=_QUEUE_FULL_RETRY_S)
    if error.code == "deadline_exceeded":
        return UpstreamTimeout(str(error), upstream_code=error.code)
    return UpstreamFailed(str(error), upstream_code=error.code)


class _Logprobs:
    """Each choice's log-probabilities, in the operation's format."""

    def __init__(self, operation: Operation) -> None:
        self._chat = operation is Operation.CHAT
        self._offsets: dict[int, int] = {}

    def told(self, choice: int, entries: Sequence[TokenLogprob]) -> Any:
        """Those of the next tokens; ``None`` where there are none."""
        if not entries:
            return None
        if self._chat:
            return chat_logprobs(entries)
        offset = self._offsets.get(choice, 0)
        told, self._offsets[choice] = completion_logprobs(entries, offset)
        return told


class _Streamed:
    def __init__(self, call: Call, created_unix_s: int) -> None:
        operation = call.request.arrival.operation
        self._writer = StreamWriter(operation, _id(call), call.model, created_unix_s)
        self._logprobs = _Logprobs(operation)

    def open(self, choice: int) -> bytes:
        return self._writer.opening(choice)

    def say(self, choice: int, text: Text | Echo) -> bytes:
        writer, due = self._writer, []
        if isinstance(text, Text) and text.reasoning:
            due.append(writer.reasoning(choice, text.reasoning))
        if text.text or text.logprobs:
            due.append(writer.text(choice, text.text, self._logprobs.told(choice, text.logprobs)))
        calls = text.calls if isinstance(text, Text) else ()
        due += [writer.call(choice, it.index, Called(it.id, it.name, it.arguments)) for it in calls]
        return b"".join(due)

    def finish(self, choice: int, done: Done, beside: Mapping[str, Any]) -> bytes:
        return self._writer.finish(choice, done.reason, beside, stop_reason=done.stop_string)

    def end(self, account: Account) -> bytes:
        return self._writer.usage(account.usage, account.prediction) + self._writer.done()


@dataclass(slots=True)
class _Heard:
    """A whole choice in the making."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[CallPiece] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    reason: str = ""
    stop_string: str = ""


class _Whole:
    def __init__(self, call: Call, created_unix_s: int) -> None:
        self._call = call
        self._created_unix_s = created_unix_s
        self._heard: dict[int, _Heard] = {}
        self._beside: Mapping[str, Any] = _NOTHING
        self._logprobs = _Logprobs(call.request.arrival.operation)

    def open(self, choice: int) -> bytes:
        self._heard[choice] = _Heard()
        return b""

    def say(self, choice: int, text: Text | Echo) -> bytes:
        heard = self._heard[choice]
        heard.text.append(text.text)
        heard.logprobs += text.logprobs
        if isinstance(text, Text):
            heard.reasoning.append(text.reasoning)
            heard.calls += text.calls
        return b""

    def finish(self, choice: int, done: Done, beside: Mapping[str, Any]) -> bytes:
        self._heard[choice].reason = done.reason
        self._heard[choice].stop_string = done.stop_string
        self._beside = beside
        return b""

    def end(self, account: Account) -> bytes:
        call = self._call
        return whole_answer(
            call.request.arrival.operation,
            _id(call),
            call.model,
            self._created_unix_s,
            [self._answered(choice, heard) for choice, heard in sorted(self._heard.items())],
            account.usage,
            prediction=account.prediction,
            beside=self._beside,
        )

    def _answered(self, choice: int, heard: _Heard) -> Answered:
        return Answered(
            "".join(heard.text),
            heard.reason,
            "".join(heard.reasoning),
            _joined(heard.calls),
            self._logprobs.told(choice, heard.logprobs),
            stop_reason=heard.stop_string,
        )


def _joined(pieces: Sequence[CallPiece]) -> list[Called]:
    calls: list[Called] = []
    for piece in pieces:
        if piece.id:
            calls.append(Called(piece.id, piece.name, piece.arguments))
        else:
            begun = calls[piece.index]
            calls[piece.index] = begun._replace(arguments=begun.arguments + piece.arguments)
    return calls


def _id(call: Call) -> str:
    kind = "chatcmpl" if call.request.arrival.operation is Operation.CHAT else "cmpl"
    return f"{kind}-{call.request.arrival.id}"
