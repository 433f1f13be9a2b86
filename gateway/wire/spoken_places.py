"""Where a transcript says something: as one text, and by segments and words, which say the same again."""

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from gateway.types import Operation
from gateway.wire.json_edits import Path

TRANSCRIBES = frozenset({Operation.TRANSCRIPTION, Operation.TRANSLATION})
"""What is answered with what was said in a sound."""

_QUIET = frozenset(
    {"id", "type", "object", "task", "model", "language", "languages", "speaker", "usage", "x_groq", "logprobs"}
)
"""Members that hold no words of the speaker's."""

_WORD = re.compile(r"\S+")
_PART = re.compile(r"\w+")


class Chain(Struct, frozen=True, gc=False):
    """A text that is told by ``pieces``, which stand at ``paths``; most have but one."""

    paths: list[Path]
    pieces: list[str]


def chains(tree: Any) -> list[Chain]:
    """All of a transcript in JSON, or of an event of one, parsed. Members of one name in a list tell one text."""
    return list(_inside(tree, ()))


def gone_parts(old: str, new: str) -> frozenset[str]:
    """The words, and parts of words, that a text had and has no more."""
    if old == new:
        return frozenset()
    return frozenset(_PART.findall(old)).difference(_PART.findall(new))


def without(text: str, gone: frozenset[str]) -> str:
    """The text without the words that have one of ``gone`` in them."""
    if gone.isdisjoint(_PART.findall(text)):
        return text
    return _WORD.sub(lambda word: "" if not gone.isdisjoint(_PART.findall(word[0])) else word[0], text)


def _inside(value: Any, path: Path) -> Iterator[Chain]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, str) and name not in _QUIET:
                yield Chain([(*path, name)], [inner])
            elif name not in _QUIET:
                yield from _inside(inner, (*path, name))
    elif isinstance(value, list):
        yield from _items(value, path)


def _items(values: list[Any], path: Path) -> Iterator[Chain]:
    by_name: dict[str, Chain] = {}
    for at, value in enumerate(values):
        members = value if isinstance(value, dict) else {"": value}
        for name, inner in members.items():
            inside: Path = (*path, at, name) if isinstance(value, dict) else (*path, at)
            if name in _QUIET:
                continue
            if isinstance(inner, str):
                chain = by_name.setdefault(name, Chain([], []))
                chain.paths.append(inside)
                chain.pieces.append(inner)
            else:
                yield from _inside(inner, inside)
    yield from by_name.values()
