"""The content of Anthropic's messages as the hub's turns.

A user's turn becomes one tool turn for each result, straight after the call as OpenAI wants it, and then one user turn
with the rest in its order. Pictures in results, for which a tool's turn has no place, lead that user turn. An
assistant's turn keeps its text and its calls. What was thought goes beside the turns, for who can use it.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw

from gateway.conversation import FunctionCall, Message, Part, ToolCall
from gateway.errors import InvalidRequest
from gateway.wire.json_body import decode
from gateway.wire.openai_fields import Name

ERROR_MARK = "[tool error] "
"""Begins the result of a tool that failed: OpenAI's tool turns have no field for it."""


class Block(msgspec.Struct):
    """A content block. ``type`` tells which fields are filled; kinds that we do not know have none."""

    type: Name
    text: str | None = None
    source: Any = None
    id: str | None = None
    name: str | None = None
    input: Raw = msgspec.field(default_factory=Raw)  # a schema cannot tell bytes as a default
    tool_use_id: str | None = None
    content: Raw = msgspec.field(default_factory=Raw)
    is_error: bool | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    title: str | None = None
    context: str | None = None
    citations: Any = None


def _needs_of(kind: str, *fields: str) -> dict[str, Any]:
    """A block of another kind, or one with all of these texts, as a JSON schema says it."""
    other = {"properties": {"type": {"not": {"const": kind}}}}
    return {"anyOf": [other, {"properties": {key: {"type": "string"} for key in fields}, "required": [*fields]}]}


# What types alone cannot say; ``Turns`` is what holds.
_BLOCK: Mapping[str, Any] = {
    "allOf": [_needs_of("text", "text"), _needs_of("tool_use", "id", "name"), _needs_of("tool_result", "tool_use_id")]
}

Content = str | tuple[Annotated[Block, Meta(extra_json_schema=dict(_BLOCK))], ...]
_CONTENT = msgspec.json.Decoder(Content | None)
_DOCUMENT_CONTENT = msgspec.json.Decoder(Content)


class Turns:
    """Hub turns in the making.

    ``begun`` is where the answer stands that the last turn begins, empty where it begins none. ``needs`` are
    capabilities that the content calls for, ``lost`` the paths of what has no place in a chat, and ``thoughts`` the
    thinking blocks of a turn of ``messages``, by its place there.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.needs: set[str] = set()
        self.lost: list[str] = []
        self.begun = ""
        self.thoughts: dict[int, list[Block]] = {}

    def system(self, content: Content, where: str) -> None:
        """Instructions: one turn of text."""
        texts = [content] if isinstance(content, str) else self._texts(content, where)
        self.messages.append(Message(role="system", content="\n\n".join(texts)))

    def user(self, content: Content, where: str) -> None:
        """A user's turn: results first, then the rest."""
        if isinstance(content, str):
            self.messages.append(Message(role="user", content=content))
            return
        parts: list[Part] = []
        pictures: list[Part] = []
        for at, block in enumerate(content):
            if block.type == "tool_result":
                pictures += self._result(block, f"{where}.content[{at}]")
            else:
                parts += self._parts(block, f"{where}.content[{at}]")
        if pictures or parts or not content:
            self.messages.append(Message(role="user", content=_plain([*pictures, *parts])))

    def assistant(self, content: Content, where: str) -> None:
        """A model's turn."""
        if isinstance(content, str):
            self.messages.append(Message(role="assistant", content=content))
            return
        texts: list[str] = []
        calls: list[ToolCall] = []
        for at, block in enumerate(content):
            path = f"{where}.content[{at}]"
            match block.type:
                case "text":
                    texts.append(_required(block.text, f"{path}.text"))
                case "thinking" | "redacted_thinking":
                    self.thoughts.setdefault(len(self.messages), []).append(block)
                case "tool_use":
                    calls.append(_call(block, path))
                case _:
                    self.lost.append(path)
        self.messages.append(
            Message(
                role="assistant",
                content="".join(texts) if texts or not calls else None,
                tool_calls=tuple(calls) or None,
            )
        )

    def _result(self, block: Block, where: str) -> list[Part]:
        """Adds a tool's turn; returns the parts that have no place in it."""
        call_id = _required(block.tool_use_id, f"{where}.tool_use_id")
        content = decode(_CONTENT, bytes(block.content), f"{where}.content") if block.content else None
        parts = [Part(type="text", text=content)] if isinstance(content, str) else []
        for at, inner in enumerate(content if isinstance(content, tuple) else ()):
            parts += self._parts(inner, f"{where}.content[{at}]")
        texts = [part.text for part in parts if part.text is not None]
        text = "\n\n".join(texts)
        self.messages.append(
            Message(role="tool", tool_call_id=call_id, content=ERROR_MARK + text if block.is_error else text)
        )
        return [part for part in parts if part.text is None]

    def _parts(self, block: Block, where: str) -> list[Part]:
        match block.type:
            case "text":
                return [Part(type="text", text=_required(block.text, f"{where}.text"))]
            case "image":
                self.needs.add("vision")
                return self._image(block, where)
            case "document":
                return self._document(block, where)
            case "search_result":
                return self._search_result(block, where)
        self.lost.append(where)
        return []

    def _image(self, block: Block, where: str) -> list[Part]:
        match block.source:
            case {"type": "base64", "media_type": str(kind), "data": str(data)}:
                return [Part(type="image_url", image_url={"url": f"data:{kind};base64,{data}"})]
            case {"type": "url", "url": str(url)}:
                return [Part(type="image_url", image_url={"url": url})]
        self.lost.append(f"{where}.source")
        return []

    def _document(self, block: Block, where: str) -> list[Part]:
        """Text goes on as text under its title; a PDF as OpenAI's file; what is kept elsewhere is out of reach."""
        self._check_citations(block, where)
        heading = "\n".join(filter(None, (block.title, block.context)))
        lead = [Part(type="text", text=heading)] if heading else []
        match block.source:
            case {"type": "text", "data": str(text)}:
                return [*lead, Part(type="text", text=text)]
            case {"type": "base64", "media_type": str(kind), "data": str(data)}:
                self.needs.add("file")
                name = block.title or "document.pdf"
                file = {"filename": name, "file_data": f"data:{kind};base64,{data}"}
                context = [Part(type="text", text=block.context)] if block.context else []
                return [*context, Part(type="file", file=file)]
            case {"type": "content", "content": content}:
                within = f"{where}.source.content"
                inner = decode(_DOCUMENT_CONTENT, msgspec.json.encode(content), within)
                if isinstance(inner, str):
                    return [*lead, Part(type="text", text=inner)]
                said = [self._parts(it, f"{within}[{at}]") for at, it in enumerate(inner)]
                return [*lead, *chain.from_iterable(said)]
        self.lost.append(f"{where}.source")
        return []

    def _search_result(self, block: Block, where: str) -> list[Part]:
        self._check_citations(block, where)
        within = f"{where}.content"
        content = decode(_CONTENT, bytes(block.content), within) if block.content else None
        texts = self._texts(content, within) if isinstance(content, tuple) else []
        source = block.source if isinstance(block.source, str) else ""
        return [Part(type="text", text="\n".join(filter(None, (block.title, source, *texts))))]

    def _check_citations(self, block: Block, where: str) -> None:
        if isinstance(block.citations, dict) and block.citations.get("enabled") is True:
            self.lost.append(f"{where}.citations")

    def _texts(self, blocks: Iterable[Block], where: str) -> list[str]:
        texts: list[str] = []
        for at, block in enumerate(blocks):
            if block.type == "text":
                texts.append(_required(block.text, f"{where}[{at}].text"))
            else:
                self.lost.append(f"{where}[{at}]")
        return texts


def _call(block: Block, where: str) -> ToolCall:
    arguments = bytes(block.input).decode() if block.input else "{}"
    function = FunctionCall(name=_required(block.name, f"{where}.name"), arguments=arguments)
    return ToolCall(id=_required(block.id, f"{where}.id"), function=function)


def _plain(parts: list[Part]) -> str | tuple[Part, ...]:
    """A single text as such, for servers that know no parts."""
    if not parts:
        return ""
    text = parts[0].text
    return text if len(parts) == 1 and text is not None else tuple(parts)


def _required(value: str | None, where: str) -> str:
    if value is None:
        raise InvalidRequest(f"{where} is required", param=where)
    return value
