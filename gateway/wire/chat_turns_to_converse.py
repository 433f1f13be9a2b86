"""A chat's turns as messages of AWS Bedrock's Converse, for backends that speak it.

Instructions, wherever they stand, become ``system``. Turns of one role that follow each other are one; texts of nothing
but space are none, for Converse refuses them. Thoughts that their maker has signed go back to it, at the head of their
turn. A mark of the prompt cache is a block of its own, behind what it marks.
"""

import hashlib
import re
from typing import Any

import msgspec
from msgspec import Raw

from gateway.wire.anthropic_blocks import ERROR_MARK
from gateway.wire.cannot_carry import cannot_carry
from gateway.wire.chat_turns_to_anthropic import EMPTY
from gateway.wire.data_url import inline

Fields = dict[str, Any]

_MOST_ID_CHARS = 64
_NOT_OF_IDS = re.compile(r"[^a-zA-Z0-9_.:-]")
_NOT_OF_NAMES = re.compile(r"[^a-zA-Z0-9()\[\]-]+")
_IMAGES = frozenset({"png", "jpeg", "gif", "webp"})
_DOCUMENTS = {
    "application/msword": "doc",
    "application/pdf": "pdf",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "md",
    "text/plain": "txt",
}
_LIVES = ("5m", "1h")
_OBJECT = msgspec.json.Decoder(dict[str, Raw])


def converse_turns(messages: list[Fields], *, cache_marks: bool) -> tuple[list[Fields], list[Fields]]:
    """The blocks of ``system``, and the messages; ``cache_marks`` says whether marks of the prompt cache go on.

    Raises:
        UpstreamRefused: something in a message has no place there, which ``param`` names.
    """
    writer = _Turns(cache_marks=cache_marks)
    for at, message in enumerate(messages):
        writer.take(message, f"messages[{at}]")
    return writer.system, writer.messages


def cache_point(given: Fields) -> list[Fields]:
    """The block that marks what stands before it, where ``given`` has such a mark; else none."""
    mark = given.get("cache_control")
    if not isinstance(mark, dict):
        return []
    point = {"type": "default", **({"ttl": mark["ttl"]} if mark.get("ttl") in _LIVES else {})}
    return [{"cachePoint": point}]


class _Turns:
    def __init__(self, *, cache_marks: bool) -> None:
        self.system: list[Fields] = []
        self.messages: list[Fields] = []
        self._marks = cache_marks
        self._documents = 0
        self._called = ""  # by an assistant that knew no ids: the field of before there were tools

    def take(self, message: Fields, where: str) -> None:
        """The next message."""
        match message.get("role"):
            case "system" | "developer":
                blocks = self._blocks(message, where)
                if not all(block.keys() & {"text", "cachePoint"} for block in blocks):
                    raise cannot_carry(f"{where}.content")
                self.system += blocks
            case "user":
                self._add("user", _named(message, self._blocks(message, where)) or [{"text": EMPTY}])
            case "assistant":
                self._add("assistant", self._said(message, where) or [{"text": EMPTY}])
            case "tool" | "function":
                self._add("user", self._result(message, where))
            case _:
                raise cannot_carry(f"{where}.role")

    def _add(self, role: str, blocks: list[Fields]) -> None:
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += blocks
        else:
            self.messages.append({"role": role, "content": blocks})

    def _said(self, message: Fields, where: str) -> list[Fields]:
        if message.get("audio") is not None:
            raise cannot_carry(f"{where}.audio")
        blocks = [*_thoughts(message, where), *_named(message, self._blocks(message, where))]
        if refusal := message.get("refusal"):
            if not isinstance(refusal, str):
                raise cannot_carry(f"{where}.refusal")
            blocks.append({"text": refusal})
        for at, call in enumerate(message.get("tool_calls") or ()):
            blocks += [_call(call, f"{where}.tool_calls[{at}]"), *self._marked(call)]
        if legacy := message.get("function_call"):
            self._called = f"call_{len(self.messages)}"
            blocks.append(_call({"id": self._called, "function": legacy}, f"{where}.function_call"))
        return blocks

    def _result(self, message: Fields, where: str) -> list[Fields]:
        call_id = message.get("tool_call_id") or (self._called if message.get("role") == "function" else "")
        if not call_id or not isinstance(call_id, str):
            raise cannot_carry(where)
        blocks = self._blocks(message, where)
        marks = [block for block in blocks if "cachePoint" in block]
        said = [block for block in blocks if "cachePoint" not in block]
        result: Fields = {"toolUseId": _id(call_id)}
        if said and said[0].get("text", "").startswith(ERROR_MARK):
            result["status"] = "error"
            told = said[0]["text"].removeprefix(ERROR_MARK)
            said = [*([{"text": told}] if told.strip() else []), *said[1:]]
        if any("audio" in block for block in said):
            raise cannot_carry(f"{where}.content")
        result["content"] = said or [{"text": EMPTY}]
        return [{"toolResult": result}, *(marks[-1:])]

    def _blocks(self, message: Fields, where: str) -> list[Fields]:
        content = message.get("content")
        if isinstance(content, str):
            return [{"text": content}, *self._marked(message)] if content.strip() else []
        blocks: list[Fields] = []
        for at, part in enumerate(content or ()):
            block = self._part(part, f"{where}.content[{at}]")
            if block.get("text", "x").strip():
                blocks += [block, *self._marked(part)]
        if blocks and "cachePoint" not in blocks[-1]:
            blocks += self._marked(message)
        return blocks

    def _marked(self, given: Fields) -> list[Fields]:
        return cache_point(given) if self._marks else []

    def _part(self, part: Fields, where: str) -> Fields:
        match part:
            case {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
                return {"text": text}
            case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "image_url", "image_url": str(url)}:
                return _image(url, where)
            case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(kind)}}:
                return {"audio": {"format": kind, "source": {"bytes": data}}}
            case {"type": "file", "file": {"file_data": str(data), **rest}}:
                return self._document(data, rest.get("filename"), f"{where}.file.file_data")
            case _:
                raise cannot_carry(where)

    def _document(self, url: str, filename: Any, where: str) -> Fields:
        """A file by its media type, or by the end of its name; each has a name of its own, as Converse wants it."""
        stem, _, suffix = filename.rpartition(".") if isinstance(filename, str) else ("", "", "")
        own = inline(url)
        kind = _DOCUMENTS.get(own.media_type) if own is not None else None
        kind = kind or (suffix.lower() if suffix.lower() in _DOCUMENTS.values() else None)
        if own is None or kind is None:
            raise cannot_carry(where)
        self._documents += 1
        plain = _NOT_OF_NAMES.sub(" ", stem).strip()[:100] or "document"
        name = plain if self._documents == 1 else f"{plain} ({self._documents})"
        return {"document": {"format": kind, "name": name, "source": {"bytes": own.base64}}}


def _image(url: str, where: str) -> Fields:
    """A picture: its bytes, or where it lies in S3. Converse fetches nothing from elsewhere."""
    own = inline(url)
    kind = own.media_type.removeprefix("image/") if own is not None else url.rpartition(".")[2].lower()
    kind = "jpeg" if kind == "jpg" else kind
    if kind not in _IMAGES or not (own is not None or url.startswith("s3://")):
        raise cannot_carry(where)
    source: Fields = {"bytes": own.base64} if own is not None else {"s3Location": {"uri": url}}
    return {"image": {"format": kind, "source": source}}


def _named(message: Fields, blocks: list[Fields]) -> list[Fields]:
    """Who speaks stands before what they say: Converse has no field for it."""
    name = message.get("name")
    if not name:
        return blocks
    if not blocks or "text" not in blocks[0]:
        return [{"text": f"{name}:"}, *blocks]
    return [{"text": f"{name}: {blocks[0]['text']}"}, *blocks[1:]]


def _thoughts(message: Fields, where: str) -> list[Fields]:
    thoughts = message.get("thinking_blocks") or []
    if not isinstance(thoughts, list):
        raise cannot_carry(f"{where}.thinking_blocks")
    blocks: list[Fields] = []
    for thought in thoughts:
        match thought:
            case {"type": "thinking", "signature": str(signature)} if signature:
                text = thought.get("thinking")
                told = {"text": text if isinstance(text, str) else "", "signature": signature}
                blocks.append({"reasoningContent": {"reasoningText": told}})
            case {"type": "redacted_thinking", "data": str(data)} if data:
                blocks.append({"reasoningContent": {"redactedContent": data}})
    return blocks


def _call(call: Fields, where: str) -> Fields:
    function = call.get("function")
    if call.get("type", "function") != "function" or not isinstance(function, dict):
        raise cannot_carry(where)
    name, arguments = function.get("name"), function.get("arguments") or "{}"
    if not isinstance(name, str) or not name or not isinstance(arguments, str):
        raise cannot_carry(f"{where}.function")
    try:
        _OBJECT.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        given: Any = {"malformed_arguments": arguments}
    else:
        given = Raw(arguments.encode())
    return {"toolUse": {"toolUseId": _id(call.get("id") or name), "name": name, "input": given}}


def _id(call_id: str) -> str:
    """The id in Converse's alphabet and length; what had to change stays unlike any other by the digest at its end."""
    plain = _NOT_OF_IDS.sub("_", call_id)
    if plain == call_id and len(call_id) <= _MOST_ID_CHARS:
        return call_id
    return f"{plain[: _MOST_ID_CHARS - 9]}_{hashlib.sha256(call_id.encode()).hexdigest()[:8]}"
