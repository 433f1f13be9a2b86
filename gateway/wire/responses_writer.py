"""Writes deltas as answers of OpenAI's Responses, streamed or whole.

Every event has the next ``sequence_number``. ``response.created`` and ``response.in_progress`` come first, then for
each output item its ``added``, its parts and deltas, and its ``done``, and last ``response.completed`` or
``response.incomplete`` with all of it. Items that grow at the same time (parallel calls) stay apart by their index.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.price import Usage
from gateway.types import ChatRequest
from gateway.wire.anthropic_answer import counted_or_estimated
from gateway.wire.deltas import AnswerEnd, AnswerStart, ChoiceFinish, Delta, UsageReport
from gateway.wire.responses_object import ending, response_object, response_usage
from gateway.wire.responses_output import Output
from gateway.wire.sse import frame
from gateway.wire.translation import AnswerWriter

_ENCODE = msgspec.json.Encoder().encode


def responses_writer(request: ChatRequest, streamed: bool) -> AnswerWriter:  # noqa: FBT001  # the door's signature
    """A writer of one answer; see ``WriterOf``."""
    return ResponsesStreamWriter(request) if streamed else ResponsesWholeWriter(request)


class _Answer:
    """What both have in common: the answer as it grows."""

    def __init__(self, request: ChatRequest) -> None:
        self.request = request
        self.start = AnswerStart()
        self.output = Output(request)
        self._reason = "stop"
        self._usage: Usage | None = None

    def take(self, delta: Delta) -> list[tuple[str, dict[str, Any]]]:
        """What is to be told of it, as names and fields of events."""
        match delta:
            case AnswerStart():
                self.start = delta
            case UsageReport(usage=usage):
                self._usage = usage
            case ChoiceFinish(reason=reason):
                self._reason = reason
            case AnswerEnd():
                return self.output.close()
            case _:
                return self.output.take(delta)
        return []

    def finished(self) -> dict[str, Any]:
        """The whole response."""
        usage = counted_or_estimated(self._usage, self.request, self.output.text_bytes)
        end = ending(self._reason)
        return response_object(
            self.request,
            self.start,
            **end,
            completed_at=int(time.time()) if end["status"] == "completed" else None,
            output=self.output.items(end["status"]),
            usage=response_usage(usage),
        )


class ResponsesWholeWriter:
    """See ``AnswerWriter``."""

    def __init__(self, request: ChatRequest) -> None:
        self._answer = _Answer(request)

    def write(self, deltas: Sequence[Delta]) -> bytes:
        """See ``AnswerWriter.write``."""
        out = b""
        for delta in deltas:
            self._answer.take(delta)
            if isinstance(delta, AnswerEnd):
                out = _ENCODE(self._answer.finished())
        return out


class ResponsesStreamWriter:
    """See ``AnswerWriter``."""

    def __init__(self, request: ChatRequest) -> None:
        self._answer = _Answer(request)
        self._begun = False
        self._number = 0

    def write(self, deltas: Sequence[Delta]) -> bytes:
        """See ``AnswerWriter.write``."""
        out: list[bytes] = []
        for delta in deltas:
            events = self._answer.take(delta)
            if not self._begun:
                self._begun = True
                opening = response_object(self._answer.request, self._answer.start)
                out += [self._event(f"response.{name}", {"response": opening}) for name in ("created", "in_progress")]
            out += [self._event(name, fields) for name, fields in events]
            if isinstance(delta, AnswerEnd):
                response = self._answer.finished()
                out.append(self._event(f"response.{response['status']}", {"response": response}))
        return b"".join(out)

    def _event(self, name: str, fields: Mapping[str, Any]) -> bytes:
        data = _ENCODE({"type": name, "sequence_number": self._number, **fields})
        self._number += 1
        return frame(data, name.encode())
