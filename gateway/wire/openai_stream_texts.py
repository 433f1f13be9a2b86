"""The texts in a stream of OpenAI's chat or completions."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from gateway.conversation import prompt_count
from gateway.types import ChatRequest, Operation
from gateway.wire.json_edits import Path
from gateway.wire.openai_answer import DONE
from gateway.wire.places import places_in
from gateway.wire.sse import SseEvent, frame
from gateway.wire.stream_texts import Channel, Growth, Passing, standing_alone
from gateway.wire.upstream_json import opened_object

_ENCODE = msgspec.json.Encoder().encode
_KINDS = {"reasoning_content": "reasoning", "reasoning": "reasoning", "content": "text", "refusal": "refusal"}
_THOUGHTS = "thoughts"
_BY_PIECES = frozenset({"tool_calls", "function_call"})
_THINKING = frozenset({"thinking", "thinking_blocks", "reasoning_details"})
_ENVELOPE = ("id", "object", "created", "model", "system_fingerprint")


class OpenAIStreamTexts:
    """See ``StreamTexts``. Of a choice, thoughts are over where its text or a call begins."""

    __slots__ = ("_envelope", "_left", "_operation")

    def __init__(self, request: ChatRequest) -> None:
        self._operation = request.arrival.operation
        self._envelope: dict[str, Any] = {}
        self._left = dict.fromkeys(range(request.n * prompt_count(request.prompt)))

    def passing(self, event: SseEvent) -> Passing:
        """See ``StreamTexts.passing``."""
        chunk = _chunk(event.data)
        if chunk is None:
            return Passing(event, ends_all=True)
        growths: list[Growth] = []
        over: list[Channel] = []
        ended: list[int] = []
        for at, choice in _objects(chunk.get("choices")):
            index = _index(choice)
            found = list(_growths(choice, ("choices", at), index))
            growths += found
            if any(growth.kind != "reasoning" and growth.old for growth in found):
                over.append((index, _THOUGHTS))
            if choice.get("finish_reason"):
                over.append((index,))
                ended.append(index)
        if not self._envelope:
            self._envelope = {name: chunk[name] for name in _ENVELOPE if name in chunk}
        return Passing(event, growths, over=over, note=ended)

    def went(self, passing: Passing) -> None:
        """See ``StreamTexts.went``."""
        for index in passing.note or ():
            self._left.pop(index, None)

    def blocked(self) -> bytes:
        """See ``StreamTexts.blocked``: each choice that is not over ends as one that a filter stopped."""
        body: dict[str, Any] = {"text": ""} if self._operation is Operation.COMPLETION else {"delta": {}}
        ended = [{"index": index, **body, "finish_reason": "content_filter"} for index in self._left]
        return frame(_ENCODE({**self._envelope, "choices": ended})) + DONE if ended else DONE


def _chunk(data: bytes) -> Mapping[str, Any] | None:
    """The chunk, or ``None`` for the end mark.

    Raises:
        UpstreamInvalid: it is neither, and nobody could look at it.
    """
    return None if data.strip() == b"[DONE]" else opened_object(data)


def _growths(choice: Mapping[str, Any], path: Path, index: int) -> Iterator[Growth]:
    """What a choice of a chunk adds, and to what."""
    if isinstance(text := choice.get("text"), str):
        yield Growth((*path, "text"), text, "text", (index, "text"))
    if "message" in choice:
        yield from standing_alone(places_in(choice["message"], (*path, "message")))
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return
    path = (*path, "delta")
    for name, kind in _KINDS.items():
        if isinstance(text := delta.get(name), str):
            channel = (index, _THOUGHTS, name) if kind == "reasoning" else (index, name)
            yield Growth((*path, name), text, kind, channel)
    if any(isinstance(value, dict | list) for value in delta.values()):
        yield from _nested(delta, path, index)
        yield from _calls(delta, path, index)


def _calls(delta: Mapping[str, Any], path: Path, index: int) -> Iterator[Growth]:
    """What calls grow by."""
    call = delta.get("function_call")
    if isinstance(call, dict) and isinstance(text := call.get("arguments"), str):
        yield Growth((*path, "function_call", "arguments"), text, "arguments", (index, "call"))
    for at, call in _objects(delta.get("tool_calls")):
        place = call["index"] if isinstance(call.get("index"), int) else at
        for name, member, kind in (("function", "arguments", "arguments"), ("custom", "input", "text")):
            inner = call.get(name)
            if isinstance(inner, dict) and isinstance(text := inner.get(member), str):
                yield Growth((*path, "tool_calls", at, name, member), text, kind, (index, "call", place))


def _nested(delta: Mapping[str, Any], path: Path, index: int) -> Iterator[Growth]:
    """What some providers say in parts: a text or thoughts as lists, citations, the transcript of a sound."""
    parts = {name: value for name, value in delta.items() if name not in _BY_PIECES and isinstance(value, dict | list)}
    for place in places_in(parts, path):
        inside = place.path[len(path) :]
        if not _THINKING.isdisjoint(inside):
            yield Growth(place.path, place.text, "reasoning", (index, _THOUGHTS, *inside), is_json=place.is_json)
        elif inside[0] in {"content", "audio"}:
            yield Growth(place.path, place.text, place.kind, (index, inside[0]), is_json=place.is_json)
        else:
            yield from standing_alone([place])


def _objects(value: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a list and their places."""
    return ((at, item) for at, item in enumerate(value if isinstance(value, list) else ()) if isinstance(item, dict))


def _index(choice: Mapping[str, Any]) -> int:
    index = choice.get("index")
    return index if isinstance(index, int) else 0
