"""Items of OpenAI's Responses as turns of a chat: what was said, what was called, what came of it, what was thought."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gateway.errors import InvalidRequest

_ROLES = frozenset({"user", "assistant", "system", "developer"})
_THOUGHTS = "headrace-1:"
"""Marks thoughts that were made opaque here, apart from those that only their provider can read."""
_TEXTS = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})


class Item(msgspec.Struct, kw_only=True):
    """One item of ``input``; which fields count depends on ``type``, which a message may leave out."""

    type: str | None = None
    role: str | None = None
    content: Any = None
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: Any = None
    input: Any = None
    output: Any = None
    summary: Any = None
    encrypted_content: str | None = None


def _text(**bounds: int) -> dict[str, Any]:
    return {"type": "string", **bounds}


def _kind(*kinds: str, **fields: Any) -> dict[str, Any]:
    """An item of these kinds, with what it needs."""
    return {"properties": {"type": {"enum": [*kinds]}, **fields}, "required": ["type", *fields]}


def _part(kinds: Iterable[str], **fields: Any) -> dict[str, Any]:
    """A part of these kinds, with what it needs."""
    return {"properties": {"type": {"enum": sorted(kinds)}, **fields}, "required": ["type", *fields]}


_KINDS = ("message", "reasoning", "function_call", "custom_tool_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_CONTENT: Mapping[str, Any] = {
    "anyOf": [
        _text(),
        {
            "type": "array",
            "items": {
                "type": "object",
                "anyOf": [
                    _part(_TEXTS, text=_text()),
                    _part(["refusal"], refusal=_text()),
                    {
                        "properties": {"type": {"type": "string", "not": {"enum": [*sorted(_TEXTS), "refusal"]}}},
                        "required": ["type"],
                    },
                ],
            },
        },
    ]
}
_MESSAGE: Mapping[str, Any] = {"role": {"enum": sorted(_ROLES)}, "content": _CONTENT}
ITEM: Mapping[str, Any] = {
    "anyOf": [
        {"properties": {"type": {"enum": ["message", "", None]}, **_MESSAGE}, "required": [*_MESSAGE]},
        _kind("reasoning"),
        _kind("function_call", call_id=_text(minLength=1), name=_text(), arguments=_text()),
        _kind("custom_tool_call", call_id=_text(minLength=1), name=_text(), input=_text()),
        _kind(*_OUTPUTS, call_id=_text(minLength=1), output=_CONTENT),
        {
            "properties": {"type": {"type": "string", "minLength": 1, "not": {"enum": [*_KINDS, *_OUTPUTS]}}},
            "required": ["type"],
        },
    ]
}
"""What each kind of item needs, as a JSON schema says it; ``Turns.take`` is what holds."""


class Turns:
    """Grows a chat item by item. ``messages`` are its turns; ``lost`` are paths to what a chat has no place for.

    What an assistant thought, said and called one after the other is one turn.
    """

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.lost: list[str] = []

    def take(self, item: Item, path: str) -> None:
        """The next item.

        Raises:
            InvalidRequest: it lacks what its type needs, with the path as ``param``.
        """
        match item.type or ("message" if item.role is not None else None):
            case "message":
                self._message(item, path)
            case "reasoning":
                self._thought(item, path)
            case "function_call":
                name = spaced(item.namespace or "", _needed(item.name, f"{path}.name"))
                function = {"name": name, "arguments": _arguments(item.arguments, path)}
                self._call({"id": _call_id(item, path), "type": "function", "function": function})
            case "custom_tool_call":
                custom = {"name": _needed(item.name, f"{path}.name"), "input": _needed(item.input, f"{path}.input")}
                self._call({"id": _call_id(item, path), "type": "custom", "custom": custom})
            case "function_call_output" | "custom_tool_call_output":
                content = self._content(item.output, f"{path}.output")
                self.messages.append({"role": "tool", "tool_call_id": _call_id(item, path), "content": content})
            case None:
                raise InvalidRequest(f"{path}.type is required", param=f"{path}.type")
            case _:
                self.lost.append(path)

    def _message(self, item: Item, path: str) -> None:
        if item.role not in _ROLES:
            raise InvalidRequest(f"{path}.role must be one of {', '.join(sorted(_ROLES))}", param=f"{path}.role")
        content = self._content(item.content, f"{path}.content")
        last = self.messages[-1] if self.messages else {}
        if item.role == "assistant" and last.get("role") == "assistant" and last.get("content") is None:
            last["content"] = content
        else:
            self.messages.append({"role": item.role, "content": content})

    def _content(self, content: Any, path: str) -> str | list[dict[str, Any]]:
        if isinstance(content, str):
            return content
        if not isinstance(content, list):
            raise InvalidRequest(f"{path} must be a string or an array", param=path)
        parts = [self._part(part, f"{path}[{at}]") for at, part in enumerate(content)]
        return [part for part in parts if part is not None]

    def _part(self, part: Any, path: str) -> dict[str, Any] | None:
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise InvalidRequest(f"{path} must be an object with a type", param=path)
        kind = part["type"]
        if kind in _TEXTS:
            return {"type": "text", "text": _needed(part.get("text"), f"{path}.text")}
        if kind == "refusal":
            return {"type": "refusal", "refusal": _needed(part.get("refusal"), f"{path}.refusal")}
        if kind == "input_image" and isinstance(part.get("image_url"), str):
            detail = {"detail": part["detail"]} if isinstance(part.get("detail"), str) else {}
            return {"type": "image_url", "image_url": {"url": part["image_url"], **detail}}
        if kind == "input_file" and isinstance(part.get("file_data") or part.get("file_id"), str):
            file = {name: part[name] for name in ("file_data", "file_id", "filename") if part.get(name) is not None}
            return {"type": "file", "file": file}
        if kind == "input_audio":
            return {"type": "input_audio", "input_audio": part.get("input_audio")}
        self.lost.append(path)
        return None

    def _thought(self, item: Item, path: str) -> None:
        """Thoughts come before what they led to, and so begin the assistant's next turn."""
        text = "\n\n".join(_texts(item.content) or _texts(item.summary))
        blocks = opened_thoughts(item.encrypted_content) if item.encrypted_content else []
        if blocks is None:
            self.lost.append(f"{path}.encrypted_content")
            return
        signed = [block for block in blocks if block.get("signature") or block.get("data")]
        text = text or "".join([block.get("thinking", "") for block in blocks])
        if text or signed:
            thoughts: dict[str, Any] = {"reasoning_content": text} if text else {}
            thoughts |= {"thinking_blocks": signed} if signed else {}
            self.messages.append({"role": "assistant", "content": None, **thoughts})

    def _call(self, call: dict[str, Any]) -> None:
        last = self.messages[-1] if self.messages else {}
        if last.get("role") != "assistant":
            last = {"role": "assistant", "content": None}
            self.messages.append(last)
        last.setdefault("tool_calls", []).append(call)


def spaced(namespace: str, name: str) -> str:
    """The name that a tool of a namespace has in a chat, which knows no namespaces."""
    return f"{namespace}__{name}" if namespace else name


def closed_thoughts(blocks: list[dict[str, str]]) -> str:
    """Thoughts with their provider's signatures as one opaque word, which ``opened_thoughts`` reads."""
    return _THOUGHTS + base64.urlsafe_b64encode(msgspec.json.encode(blocks)).decode()


def opened_thoughts(word: str) -> list[dict[str, str]] | None:
    """What ``closed_thoughts`` was given; ``None`` for a word that somebody else made."""
    if not word.startswith(_THOUGHTS):
        return None
    try:
        data = base64.b64decode(word.removeprefix(_THOUGHTS), altchars=b"-_", validate=True)
        return msgspec.json.decode(data, type=list[dict[str, str]])
    except (binascii.Error, ValueError, msgspec.DecodeError):
        return None


def _needed(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"{path} must be a string", param=path)
    return value


def _call_id(item: Item, path: str) -> str:
    if not item.call_id:
        raise InvalidRequest(f"{path}.call_id is required", param=f"{path}.call_id")
    return item.call_id


def _arguments(arguments: Any, path: str) -> str:
    return _needed(arguments, f"{path}.arguments")


def _texts(parts: Any) -> list[str]:
    if not isinstance(parts, list):
        return []
    return [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
