"""A chat's turns as Gemini's contents, for backends that speak Gemini's format.

Instructions, wherever they stand, become ``systemInstruction``: Gemini has no other place for them. Turns of one role
that follow each other are one. The thought that the model has signed goes back on the first of its calls.
"""

import mimetypes
from typing import Any

from gateway.wire.anthropic_blocks import ERROR_MARK
from gateway.wire.call_arguments import arguments_object, as_object, called
from gateway.wire.cannot_carry import cannot_carry
from gateway.wire.data_url import inline
from gateway.wire.upstream_json import objects, text_of

Fields = dict[str, Any]

_FOREIGN_SIGNATURE = "skip_thought_signature_validator"
"""What Google wants on calls that another model made, which no signature can prove."""


def contents_of(messages: list[Fields]) -> tuple[list[Fields], list[Fields]]:
    """The parts of ``systemInstruction``, and the contents.

    Raises:
        UpstreamRefused: something in a message has no place there, which ``param`` names.
    """
    writer = _Contents()
    for at, message in enumerate(messages):
        writer.take(message, f"messages[{at}]")
    return writer.system, writer.contents


class _Contents:
    def __init__(self) -> None:
        self.system: list[Fields] = []
        self.contents: list[Fields] = []
        self._names: dict[str, str] = {}  # of the functions, by the ids of their calls

    def take(self, message: Fields, where: str) -> None:
        """The next message."""
        match message.get("role"):
            case "system" | "developer":
                self.system += _parts(message, where)
            case "user":
                self._add("user", _named(message, _parts(message, where)) or [{"text": ""}])
            case "assistant":
                self._add("model", self._said(message, where) or [{"text": ""}])
            case "tool" | "function":
                self._add("user", [self._result(message, where)])
            case _:
                raise cannot_carry(f"{where}.role")

    def _add(self, role: str, parts: list[Fields]) -> None:
        if self.contents and self.contents[-1]["role"] == role:
            self.contents[-1]["parts"] += parts
        else:
            self.contents.append({"role": role, "parts": parts})

    def _said(self, message: Fields, where: str) -> list[Fields]:
        if message.get("audio") is not None:
            raise cannot_carry(f"{where}.audio")
        parts = _named(message, _parts(message, where))
        if refusal := message.get("refusal"):
            parts.append({"text": refusal})
        calls = [
            self._call(call, f"{where}.tool_calls[{at}]") for at, call in enumerate(message.get("tool_calls") or ())
        ]
        if legacy := message.get("function_call"):
            call = {"function": legacy}
            calls.append(self._call({"id": called(call, f"{where}.function_call")[0], **call}, where))
        signature = _signature(message, where)
        if calls:
            calls[0]["thoughtSignature"] = signature or _FOREIGN_SIGNATURE
        elif parts and signature:
            parts[-1]["thoughtSignature"] = signature
        return parts + calls

    def _call(self, call: Fields, where: str) -> Fields:
        name, arguments = called(call, where)
        self._names[call.get("id", "")] = name
        made: Fields = {"name": name, "args": arguments_object(arguments)}
        return {"functionCall": {"id": call["id"], **made} if call.get("id") else made}

    def _result(self, message: Fields, where: str) -> Fields:
        call_id = message.get("tool_call_id") or message.get("name") or ""
        name = self._names.get(call_id) or message.get("name")
        if not name:
            raise cannot_carry(f"{where}.tool_call_id")
        parts = _parts(message, where)
        if any("text" not in part for part in parts):
            raise cannot_carry(f"{where}.content")
        text = "".join(part["text"] for part in parts)
        response = as_object(text) or {"result": text}
        if text.startswith(ERROR_MARK):
            response = {"error": text.removeprefix(ERROR_MARK)}
        return {"functionResponse": {"id": call_id, "name": name, "response": response}}


def _parts(message: Fields, where: str) -> list[Fields]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"text": content}] if content else []
    return [_part(part, f"{where}.content[{at}]") for at, part in enumerate(content or ())]


def _named(message: Fields, parts: list[Fields]) -> list[Fields]:
    """Who speaks stands before what they say: Gemini has no field for it."""
    name = message.get("name")
    if not name:
        return parts
    if not parts or "text" not in parts[0]:
        return [{"text": f"{name}:"}, *parts]
    return [{"text": f"{name}: {parts[0]['text']}"}, *parts[1:]]


def _part(part: Fields, where: str) -> Fields:
    match part:
        case {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
            return {"text": text}
        case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "image_url", "image_url": str(url)}:
            return _data(url, where)
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(kind)}}:
            return {"inlineData": {"mimeType": f"audio/{kind}", "data": data}}
        case {"type": "file", "file": {"file_data": str(data)}}:
            return _data(data, f"{where}.file.file_data")
        case _:
            raise cannot_carry(where)


def _data(url: str, where: str) -> Fields:
    """A picture or a file: its bytes, or its address."""
    if (own := inline(url)) is not None:
        return {"inlineData": {"mimeType": own.media_type, "data": own.base64}}
    if url.startswith(("https://", "http://", "gs://")):
        kind, _ = mimetypes.guess_type(url.partition("?")[0])
        return {"fileData": {"fileUri": url, **({"mimeType": kind} if kind else {})}}
    raise cannot_carry(where)


def _signature(message: Fields, where: str) -> str:
    thoughts = message.get("thinking_blocks") or []
    if not isinstance(thoughts, list):
        raise cannot_carry(f"{where}.thinking_blocks")
    return next(filter(None, (text_of(block.get("signature")) for block in reversed(objects(thoughts)))), "")
