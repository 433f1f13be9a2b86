"""A chat's turns as Anthropic's messages, for backends that speak Anthropic's format.

Instructions at the beginning become ``system``; later ones stay where they are. Results of tools, and what the user
says after them, become one user turn. Thoughts that their maker has signed go back to it, at the head of their turn.
"""

import hashlib
import re
from typing import Any

from gateway.wire.anthropic_blocks import ERROR_MARK
from gateway.wire.call_arguments import arguments_object
from gateway.wire.cannot_carry import cannot_carry
from gateway.wire.data_url import inline
from gateway.wire.upstream_json import text_of

Fields = dict[str, Any]

EMPTY = "(no content)"
"""Stands where a turn has no words: Anthropic takes none that is empty."""

_NOT_OF_IDS = re.compile(r"[^a-zA-Z0-9_-]")
_INSTRUCT = frozenset({"system", "developer"})
_RESULTS = frozenset({"tool", "function"})


def turns_of(messages: list[Fields]) -> tuple[list[Fields], list[Fields]]:
    """The blocks of ``system``, and the messages.

    Raises:
        UpstreamRefused: something in a message has no place there, which ``param`` names.
    """
    writer = _Turns()
    for at, message in enumerate(messages):
        writer.take(message, f"messages[{at}]")
    return writer.system, writer.messages


class _Turns:
    def __init__(self) -> None:
        self.system: list[Fields] = []
        self.messages: list[Fields] = []
        self._called = ""  # by an assistant that knew no ids: the field of before there were tools

    def take(self, message: Fields, where: str) -> None:
        """The next message."""
        role = message.get("role")
        if role in _INSTRUCT:
            blocks = _blocks(message, where)
            if self.messages:
                self.messages.append({"role": "system", "content": blocks or [_text(EMPTY)]})
            else:
                self.system += blocks
        elif role in _RESULTS:
            self._user([self._result(message, where)])
        elif role == "assistant":
            self._assistant(message, where)
        elif role == "user":
            self._user(_named(message, _blocks(message, where)) or [_text(EMPTY)])
        else:
            raise cannot_carry(f"{where}.role")

    def _user(self, blocks: list[Fields]) -> None:
        """Goes on with a user turn that has only results in it so far, else begins one."""
        last = self.messages[-1] if self.messages else None
        if last is not None and last["role"] == "user" and all(it["type"] == "tool_result" for it in last["content"]):
            last["content"] += blocks
        else:
            self.messages.append({"role": "user", "content": blocks})

    def _assistant(self, message: Fields, where: str) -> None:
        if message.get("audio") is not None:
            raise cannot_carry(f"{where}.audio")
        blocks = [*_thoughts(message, where), *_named(message, _blocks(message, where))]
        if refusal := message.get("refusal"):
            if not isinstance(refusal, str):
                raise cannot_carry(f"{where}.refusal")
            blocks.append(_text(refusal))
        for at, call in enumerate(message.get("tool_calls") or ()):
            blocks.append(_call(call, f"{where}.tool_calls[{at}]"))
        if legacy := message.get("function_call"):
            self._called = f"call_{len(self.messages)}"
            blocks.append(_call({"id": self._called, "function": legacy}, f"{where}.function_call"))
        self.messages.append({"role": "assistant", "content": blocks or [_text(EMPTY)]})

    def _result(self, message: Fields, where: str) -> Fields:
        call_id = message.get("tool_call_id") or (self._called if message.get("role") == "function" else "")
        if not call_id:
            raise cannot_carry(where)
        result: Fields = {"type": "tool_result", "tool_use_id": _id(call_id)}
        blocks = _blocks(message, where)
        first = blocks[0].get("text", "") if blocks else ""
        if first.startswith(ERROR_MARK):
            result["is_error"] = True
            blocks[0] = {**blocks[0], "text": first.removeprefix(ERROR_MARK)}
            blocks = [block for block in blocks if block.get("text") != ""]
        if len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
            result["content"] = blocks[0]["text"]
        elif blocks:
            result["content"] = blocks
        return _marked(result, message)


def _blocks(message: Fields, where: str) -> list[Fields]:
    """A message's content; texts without a character are none, for Anthropic refuses them."""
    content = message.get("content")
    if isinstance(content, str):
        return [_marked(_text(content), message)] if content else []
    blocks = [_part(part, f"{where}.content[{at}]") for at, part in enumerate(content or ())]
    kept = [block for block in blocks if block.get("text") != ""]
    if kept and message.get("role") != "tool":
        kept[-1] = _marked(kept[-1], message)
    return kept


def _part(part: Fields, where: str) -> Fields:
    match part:
        case {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
            block = _text(text)
        case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "image_url", "image_url": str(url)}:
            block = {"type": "image", "source": _source(url, where)}
        case {"type": "file", "file": {"file_data": str(data), **rest}}:
            block = {"type": "document", "source": _source(data, f"{where}.file.file_data")}
            if rest.get("filename"):
                block["title"] = rest["filename"]
        case _:
            raise cannot_carry(where)
    return _marked(block, part)


def _source(url: str, where: str) -> Fields:
    """Where a picture or a file comes from: its bytes, or its address."""
    if (own := inline(url)) is not None:
        return {"type": "base64", "media_type": own.media_type, "data": own.base64}
    if url.startswith(("https://", "http://")):
        return {"type": "url", "url": url}
    raise cannot_carry(where)


def _named(message: Fields, blocks: list[Fields]) -> list[Fields]:
    """Who speaks stands before what they say: Anthropic has no field for it."""
    name = message.get("name")
    if not name:
        return blocks
    first = blocks[0] if blocks and blocks[0]["type"] == "text" else None
    if first is None:
        return [_text(f"{name}:"), *blocks]
    return [{**first, "text": f"{name}: {first['text']}"}, *blocks[1:]]


def _thoughts(message: Fields, where: str) -> list[Fields]:
    blocks = message.get("thinking_blocks") or []
    if not isinstance(blocks, list):
        raise cannot_carry(f"{where}.thinking_blocks")
    kinds = {"thinking": ("thinking", "signature"), "redacted_thinking": ("data",)}
    return [
        {"type": block["type"], **{name: block.get(name, "") for name in kinds[block["type"]]}}
        for block in blocks
        if isinstance(block, dict)
        and text_of(block.get("type")) in kinds
        and (block.get("signature") or block.get("data"))
    ]


def _call(call: Fields, where: str) -> Fields:
    function = call.get("function")
    if call.get("type", "function") != "function" or not isinstance(function, dict):
        raise cannot_carry(where)
    name, arguments = function.get("name"), function.get("arguments") or "{}"
    if not isinstance(name, str) or not isinstance(arguments, str):
        raise cannot_carry(f"{where}.function")
    given = arguments_object(arguments)
    return _marked({"type": "tool_use", "id": _id(call.get("id", "")), "name": name, "input": given}, call)


def _id(call_id: str) -> str:
    """The id in Anthropic's alphabet; what had to change stays unlike any other by the digest at its end."""
    plain = _NOT_OF_IDS.sub("_", call_id)
    if plain == call_id:
        return call_id
    return f"{plain}_{hashlib.sha256(call_id.encode()).hexdigest()[:8]}"


def _text(text: str) -> Fields:
    return {"type": "text", "text": text}


def _marked(block: Fields, given: Fields) -> Fields:
    """With the mark of the prompt cache, which OpenAI's clients write as an extension of a part or a message."""
    mark = given.get("cache_control")
    return {**block, "cache_control": mark} if mark is not None else block
