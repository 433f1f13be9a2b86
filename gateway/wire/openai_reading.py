"""Reads the bytes of an OpenAI answer, chat or completion, back into what was said: for judges, after the client.

What they read has passed a view of the same format, so it is an answer. Fields of a shape that nobody knows are left
out.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gateway.conversation import FunctionCall, ToolCall
from gateway.errors import UpstreamInvalid
from gateway.judgement import Answer, Choice
from gateway.wire.openai_usage import read_usage
from gateway.wire.sse import SseParser

_DECODE = msgspec.json.Decoder().decode
_ERRORS = (msgspec.DecodeError, RecursionError, UpstreamInvalid)


class _Draft:
    """A choice as far as it is known."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.refusal: list[str] = []
        self.calls: dict[int, list[str]] = {}  # id, name, arguments
        self.finish_reason = ""

    def take(self, choice: Mapping[str, Any]) -> None:
        """A whole choice, or a piece of one."""
        said = choice.get("message") or choice.get("delta") or {"content": choice.get("text")}
        if isinstance(said, dict):
            self.text.append(_text(said.get("content")))
            self.refusal.append(_text(said.get("refusal")))
            self._take_calls(said)
        if isinstance(reason := choice.get("finish_reason"), str) and reason:
            self.finish_reason = reason

    def choice(self) -> Choice:
        """All that was said."""
        return Choice(
            text="".join(self.text),
            refusal="".join(self.refusal),
            tool_calls=tuple(
                ToolCall(id=call_id, function=FunctionCall(name=name, arguments=arguments))
                for _, (call_id, name, arguments) in sorted(self.calls.items())
            ),
            finish_reason=self.finish_reason,
        )

    def _take_calls(self, said: Mapping[str, Any]) -> None:
        calls = said.get("tool_calls")
        for place, call in enumerate(calls if isinstance(calls, list) else ()):
            if isinstance(call, dict):
                index = call.get("index")
                said_in_it = call.get("function") or call.get("custom")
                self._take_call(index if type(index) is int else place, call, said_in_it)
        if isinstance(legacy := said.get("function_call"), dict):
            self._take_call(0, {}, legacy)

    def _take_call(self, index: int, call: Mapping[str, Any], function: Any) -> None:
        known = self.calls.setdefault(index, ["", "", ""])
        known[0] = known[0] or _text(call.get("id"))
        if isinstance(function, dict):
            known[1] = known[1] or _text(function.get("name"))
            known[2] += _text(function.get("arguments")) or _text(function.get("input"))


def read_openai_answer(data: bytes, streamed: bool) -> Answer | None:  # noqa: FBT001  # as `ReadAnswer` has it
    """The answer in ``data``, a whole body or all events of a stream; ``None`` where it cannot be read."""
    drafts: dict[int, _Draft] = {}
    usage: Any = None
    model = ""
    try:
        for piece in _events(data) if streamed else (_DECODE(data),):
            if not isinstance(piece, dict):
                continue
            usage = piece.get("usage") or usage
            model = model or _text(piece.get("model"))
            for place, choice in enumerate(piece.get("choices") or ()):
                if isinstance(choice, dict):
                    index = choice.get("index")
                    drafts.setdefault(index if type(index) is int else place, _Draft()).take(choice)
    except (*_ERRORS, TypeError):
        return None
    if not drafts:
        return None
    choices = tuple(draft.choice() for _, draft in sorted(drafts.items()))
    return Answer(choices=choices, usage=read_usage(usage), model=model)


def _events(data: bytes) -> Iterable[Any]:
    parser = SseParser(max(len(data), 1))
    for event in parser.feed(data):
        if event.data.strip() not in {b"[DONE]", b""}:
            yield _DECODE(event.data)


def _text(value: Any) -> str:
    """Text, or the texts of parts; nothing where it is neither."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, dict))
    return ""
