"""One output item of a response each, as it grows, and the events that tell of it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from gateway.wire.responses_items import closed_thoughts

Events = list[tuple[str, dict[str, Any]]]


class Item(ABC):
    """One item, at its place."""

    def __init__(self, index: int, name: str) -> None:
        self.place = {"item_id": name, "output_index": index}
        self.index = index
        self.name = name
        self.status = "in_progress"

    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """The item as it stands."""

    def added(self) -> tuple[str, dict[str, Any]]:
        """The event that it is there."""
        return "response.output_item.added", {"output_index": self.index, "item": self.fields()}

    def done(self) -> tuple[str, dict[str, Any]]:
        """The event that it is whole."""
        self.status = "completed"
        return "response.output_item.done", {"output_index": self.index, "item": self.fields()}


class Message(Item):
    """Text and refusals, each a part of its own."""

    def __init__(self, index: int, name: str) -> None:
        super().__init__(index, name)
        self._parts: list[tuple[str, list[str], list[Any]]] = []

    def fields(self) -> dict[str, Any]:
        """See ``Item.fields``."""
        content = [_part(kind, "".join(texts), logprobs) for kind, texts, logprobs in self._parts]
        return {"type": "message", "id": self.name, "status": self.status, "role": "assistant", "content": content}

    def grow(self, kind: str, text: str, logprobs: Any) -> Events:
        """More of what is said, or of the refusal."""
        events: Events = []
        if not self._parts or self._parts[-1][0] != kind:
            events = self._close_part()
            self._parts.append((kind, [], []))
            events.append(("response.content_part.added", {**self._at(), "part": _part(kind, "", [])}))
        _, texts, known = self._parts[-1]
        texts.append(text)
        tokens = _tokens(logprobs)
        known += tokens
        beside = {"logprobs": tokens} if kind == "output_text" else {}
        return [*events, (f"response.{kind}.delta", {**self._at(), "delta": text, **beside})]

    def close(self) -> Events:
        """Nothing comes any more."""
        return [*self._close_part(), self.done()]

    def _at(self) -> dict[str, Any]:
        return {**self.place, "content_index": len(self._parts) - 1}

    def _close_part(self) -> Events:
        if not self._parts:
            return []
        kind, texts, logprobs = self._parts[-1]
        text = "".join(texts)
        said = {"text": text, "logprobs": logprobs} if kind == "output_text" else {"refusal": text}
        return [
            (f"response.{kind}.done", {**self._at(), **said}),
            ("response.content_part.done", {**self._at(), "part": _part(kind, text, logprobs)}),
        ]


class Thought(Item):
    """What is thought, told as its summary; ``encrypted`` where the client wants to give it back."""

    def __init__(self, index: int, name: str, *, encrypted: bool) -> None:
        super().__init__(index, name)
        self.blocks: list[dict[str, str]] = []
        self._encrypted = encrypted
        self._texts: list[str] = []

    def fields(self) -> dict[str, Any]:
        """See ``Item.fields``."""
        text = "".join(self._texts)
        summary = [{"type": "summary_text", "text": text}] if text else []
        fields = {"type": "reasoning", "id": self.name, "summary": summary}
        blocks = self.blocks or ([{"type": "thinking", "thinking": text}] if text else [])
        if self._encrypted and blocks and self.status == "completed":
            fields["encrypted_content"] = closed_thoughts(blocks)
        return fields

    def grow(self, text: str) -> Events:
        """More of the thought."""
        events: Events = []
        if not self._texts:
            part = {"type": "summary_text", "text": ""}
            events.append(("response.reasoning_summary_part.added", {**self._at(), "part": part}))
        self._texts.append(text)
        return [*events, ("response.reasoning_summary_text.delta", {**self._at(), "delta": text})]

    def sign(self, signature: str) -> None:
        """Its maker's word for it."""
        self.blocks.append({"type": "thinking", "thinking": "".join(self._texts), "signature": signature})

    def close(self) -> Events:
        """Nothing comes any more."""
        if not self._texts:
            return [self.done()]
        text = "".join(self._texts)
        part = {"type": "summary_text", "text": text}
        return [
            ("response.reasoning_summary_text.done", {**self._at(), "text": text}),
            ("response.reasoning_summary_part.done", {**self._at(), "part": part}),
            self.done(),
        ]

    def _at(self) -> dict[str, Any]:
        return {**self.place, "summary_index": 0}


class Called(Item):
    """A call of a function, or of a ``custom`` tool, whose input is free text."""

    def __init__(self, index: int, name: str, *, call_id: str, tool: Mapping[str, str], custom: bool) -> None:
        super().__init__(index, name)
        self._call_id = call_id
        self._tool = tool
        self._custom = custom
        self._texts: list[str] = []

    def fields(self) -> dict[str, Any]:
        """See ``Item.fields``."""
        known = {"id": self.name, "call_id": self._call_id, **self._tool}
        if self._custom:
            return {"type": "custom_tool_call", **known, "input": "".join(self._texts), "status": self.status}
        return {"type": "function_call", **known, "arguments": "".join(self._texts), "status": self.status}

    def grow(self, text: str) -> Events:
        """More of the arguments, or of the input."""
        self._texts.append(text)
        name = "custom_tool_call_input" if self._custom else "function_call_arguments"
        return [(f"response.{name}.delta", {**self.place, "delta": text})] if text else []

    def close(self) -> Events:
        """Nothing comes any more."""
        text = "".join(self._texts)
        if self._custom:
            return [("response.custom_tool_call_input.done", {**self.place, "input": text}), self.done()]
        said = {"name": self._tool["name"], "arguments": text}
        return [("response.function_call_arguments.done", {**self.place, **said}), self.done()]


def _part(kind: str, text: str, logprobs: list[Any]) -> dict[str, Any]:
    if kind == "refusal":
        return {"type": kind, "refusal": text}
    return {"type": kind, "text": text, "annotations": [], "logprobs": logprobs}


def _tokens(logprobs: Any) -> list[Any]:
    """The tokens of a chat's ``logprobs``, which have the same form here."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    return content if isinstance(content, list) else []
