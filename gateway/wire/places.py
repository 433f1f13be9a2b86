"""Where texts stand in requests and answers of any client format: found by the names of the fields, at any depth.

One walk serves all formats: they call the same things by few names. What is no text for people (images, files, data
that only its provider can read, a provider's signed thoughts in a request) is no place.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gateway.types import Operation
from gateway.wire.json_edits import Path

_TEXTS: Mapping[str, str] = MappingProxyType(
    {
        "text": "text",
        "content": "text",
        "system": "text",
        "instructions": "text",
        "prompt": "text",
        "suffix": "text",
        "output": "text",
        "input": "text",
        "title": "text",
        "context": "text",
        "cited_text": "text",
        "response": "text",
        "template": "text",
        "query": "text",
        "documents": "text",
        "code": "text",
        "logs": "text",
        "stdout": "text",
        "stderr": "text",
        "transcript": "text",
        "revised_prompt": "text",
        "refusal": "refusal",
        "reasoning_content": "reasoning",
        "reasoning": "reasoning",
        "thinking": "reasoning",
        "summary": "reasoning",
        "arguments": "arguments",
    }
)
"""Fields that hold a text, and of which kind."""

_CALLS = frozenset({"input", "arguments"})
"""Fields that hold a call's arguments where their value is an object."""

_CLOSED = frozenset(
    {"image_url", "input_audio", "file", "file_data", "audio", "logprobs", "metadata", "usage", "tools"}
)
"""Fields into which nobody looks, but for the transcript of a sound."""

_DESCRIBED = frozenset({"tools", "functions", "response_format", "text", "output_config", "format"})
"""Definitions, of which the descriptions are texts: models read them as they read a prompt."""

_DESCRIPTIONS = frozenset({"description", "title", "server_description", "definition"})
_EXAMPLES = frozenset({"enum", "const", "default", "example", "examples", "input_examples"})
"""Of a schema: what its values are like, or must be."""

_FREE = frozenset({"chat_template", "chat_template_kwargs"})
"""Whatever is a string in them comes before the model; likewise in the ``documents`` of a chat."""

_SPEAKERS = frozenset({"system", "developer", "user", "assistant"})
_TOLD_TWICE = ("logprobs", "token_ids")

REQUEST_FIELDS: Mapping[Operation, tuple[str, ...]] = MappingProxyType(
    {
        Operation.CHAT: (
            "messages",
            "prediction",
            "tools",
            "functions",
            "response_format",
            "documents",
            "chat_template",
            "chat_template_kwargs",
        ),
        Operation.COMPLETION: ("prompt", "suffix"),
        Operation.EMBEDDING: ("input",),
        Operation.MESSAGES: ("system", "messages", "tools", "output_config"),
        Operation.COUNT_TOKENS: ("system", "messages", "tools", "output_config"),
        Operation.RESPONSE: ("instructions", "input", "tools", "text"),
        Operation.MODERATION: ("input",),
        Operation.SPEECH: ("input", "instructions"),
        Operation.IMAGE: ("prompt",),
        Operation.RERANK: ("query", "documents"),
        Operation.OLLAMA_CHAT: ("messages", "tools", "format"),
        Operation.OLLAMA_GENERATE: ("system", "template", "prompt", "suffix", "format"),
        Operation.OLLAMA_EMBED: ("input",),
        Operation.OLLAMA_EMBEDDINGS: ("prompt",),
    }
)
"""The top-level fields of a request in which texts stand."""

ANSWER_FIELDS: Mapping[Operation, tuple[str, ...]] = MappingProxyType(
    {
        Operation.CHAT: ("choices",),
        Operation.COMPLETION: ("choices",),
        Operation.MESSAGES: ("content",),
        Operation.RESPONSE: ("output",),
        Operation.OLLAMA_CHAT: ("message",),
        Operation.OLLAMA_GENERATE: ("response", "thinking", "tool_calls"),
        Operation.IMAGE: ("data",),
        Operation.IMAGE_EDIT: ("data",),
        Operation.IMAGE_VARIATION: ("data",),
    }
)
"""Likewise of an answer; one of another endpoint has none."""

DRAWS = frozenset({Operation.IMAGE, Operation.IMAGE_EDIT, Operation.IMAGE_VARIATION})
"""What is answered with pictures, beside which may stand what became of the prompt."""


class Place(Struct, frozen=True, kw_only=True, gc=False):
    """Where a text stands.

    ``is_json`` tells that the value is an object, of which ``text`` is the JSON. ``role`` is that of the turn it is in.
    ``sealed`` are thoughts that their provider has signed: with another word in them it takes them back no more.
    """

    path: Path
    text: str
    kind: str
    role: str = ""
    is_json: bool = False
    sealed: bool = False


def request_places(operation: Operation, fields: Mapping[str, Any]) -> list[Place]:
    """Those of a request whose parsed top-level ``fields`` these are."""
    found: list[Place] = []
    for name in REQUEST_FIELDS.get(operation, ()):
        if name in fields and name in _DESCRIBED:
            found += _descriptions(fields[name], (name,))
        elif name in fields and (name in _FREE or (name == "documents" and operation is Operation.CHAT)):
            found += _strings(fields[name], (name,))
        elif name in fields:
            role = "system" if name in {"system", "instructions"} else "user"
            found += _named(name, fields[name], (name,), role)
    return [place for place in found if not place.sealed]


def answer_places(operation: Operation, answer: Mapping[str, Any]) -> list[Place]:
    """Those of a whole answer, parsed."""
    found: list[Place] = []
    for name in ANSWER_FIELDS.get(operation, ()):
        found += _named(name, answer.get(name), (name,), "assistant")
    return found


def places_in(value: Any, path: Path) -> list[Place]:
    """Those in a part of an answer that stands at ``path``."""
    return list(_inside(value, path, "assistant")) if isinstance(value, dict) else []


def beside(tree: Any, path: Path) -> Iterator[tuple[Path, bytes]]:
    """What tells a text at ``path`` a second time, and what stands in its place once the text has changed.

    Those are its tokens, with their probabilities or by their numbers.
    """
    node = tree
    for depth, step in enumerate(path):
        for name in _TOLD_TWICE if isinstance(node, dict) else ():
            if node.get(name):
                yield (*path[:depth], name), b"[]" if isinstance(node[name], list) else b"null"
        node = node[step]


def has_tokens(operation: Operation, fields: Mapping[str, Any]) -> bool:
    """Whether a request holds tokens where a text could stand: nobody can look at those."""
    if operation not in {Operation.COMPLETION, Operation.EMBEDDING}:
        return False
    value = fields.get("prompt" if operation is Operation.COMPLETION else "input")
    return isinstance(value, list) and any(isinstance(item, int | list) for item in value)


def _named(name: str, value: Any, path: Path, role: str) -> Iterator[Place]:
    """The places of the member ``name``."""
    if isinstance(value, str):
        if name in _TEXTS:
            yield Place(path=path, text=value, kind=_TEXTS[name], role=role)
    elif isinstance(value, dict):
        if name in _CALLS and path[-1] == name and len(path) > 1:
            yield Place(path=path, text=_json(value), kind="arguments", role=role, is_json=True)
        else:
            yield from _inside(value, path, role)
    elif isinstance(value, list):
        yield from _items(name, value, path, role)


def _items(name: str, values: Sequence[Any], path: Path, role: str) -> Iterator[Place]:
    for at, value in enumerate(values):
        if isinstance(value, str):
            if name in _TEXTS:
                yield Place(path=(*path, at), text=value, kind=_TEXTS[name], role=role)
        elif isinstance(value, dict):
            yield from _inside(value, (*path, at), role)


def _inside(value: Mapping[str, Any], path: Path, role: str) -> Iterator[Place]:
    """The places in an object: a turn, a part, a block, an item, a choice."""
    said = value.get("role")
    role = said if isinstance(said, str) else role
    if value.get("type") in {"function_call_output", "custom_tool_call_output"}:
        role = "tool"
    if value.get("type") == "text" and isinstance(value.get("data"), str):  # a document that is text
        yield Place(path=(*path, "data"), text=value["data"], kind="text", role=role)
    if value.get("type") == "search_result" and isinstance(value.get("source"), str):
        yield Place(path=(*path, "source"), text=value["source"], kind="text", role=role)
    if said in _SPEAKERS and isinstance(value.get("name"), str):
        yield Place(path=(*path, "name"), text=value["name"], kind="text", role=role)
    signed = bool(value.get("signature"))
    for name, inner in value.items():
        if name not in _CLOSED:
            for place in _named(name, inner, (*path, name), role):
                yield replace(place, sealed=True) if signed and place.kind == "reasoning" else place
        elif name == "audio" and isinstance(inner, dict) and isinstance(inner.get("transcript"), str):
            yield Place(path=(*path, name, "transcript"), text=inner["transcript"], kind="text", role=role)


def _descriptions(value: Any, path: Path) -> Iterator[Place]:
    """What is said of tools, their arguments and the members of schemas, at any depth."""
    for name, inner in _members(value):
        if name in _EXAMPLES or (name in _DESCRIPTIONS and isinstance(inner, str)):
            yield from _strings(inner, (*path, name))
        else:
            yield from _descriptions(inner, (*path, name))


def _strings(value: Any, path: Path) -> Iterator[Place]:
    """All strings in a value, at any depth."""
    if isinstance(value, str):
        yield Place(path=path, text=value, kind="text", role="system")
    for name, inner in _members(value):
        yield from _strings(inner, (*path, name))


def _members(value: Any) -> Iterable[tuple[str | int, Any]]:
    return value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
