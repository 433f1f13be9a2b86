"""The texts of a request or an answer as guards see them, one by one, and the way back.

A tool call's arguments are JSON: guards see their values, each as a text of its own, with its escapes undone. A value
that is changed goes back as a string, so that the arguments are JSON afterwards, whatever was put in.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from gateway.guard import Text
from gateway.wire.json_edits import Path, with_values

_ENCODE = msgspec.json.Encoder().encode
_TREE = msgspec.json.Decoder()


class _Leaf(NamedTuple):
    """A text of the transcript: of which of the whole texts it is, and where in its JSON; ``None`` where it is all."""

    whole: int
    path: Path | None


class Transcript:
    """``texts`` are what guards see of ``wholes``: texts as they stand in a body, or as a stream comes to in all."""

    __slots__ = ("_leaves", "_wholes", "texts")

    def __init__(self, wholes: Sequence[Text]) -> None:
        self.texts: list[Text] = []
        self._wholes = wholes
        self._leaves: list[_Leaf] = []
        for at, whole in enumerate(wholes):
            leaves = argument_leaves(whole.text) if whole.kind == "arguments" else None
            for path, text in ((None, whole.text),) if leaves is None else leaves:
                self._leaves.append(_Leaf(at, path))
                self.texts.append(whole if path is None else Text(text, whole.kind, whole.role))

    @property
    def characters(self) -> int:
        """How long all of them are."""
        return sum(len(whole.text) for whole in self._wholes)

    def rewritten(self, texts: Sequence[str]) -> dict[int, str]:
        """The wholes that are not the same any more once the transcript reads ``texts``: their number, and the text."""
        changed: dict[int, str] = {}
        values: dict[int, dict[Path, bytes]] = {}
        for leaf, old, new in zip(self._leaves, self.texts, texts, strict=True):
            if new == old.text:
                continue
            if leaf.path is None:
                changed[leaf.whole] = new
            else:
                values.setdefault(leaf.whole, {})[leaf.path] = _ENCODE(new)
        for at, edits in values.items():
            changed[at] = with_values(self._wholes[at].text.encode(), edits).decode()
        return changed


def argument_leaves(text: str) -> list[tuple[Path, str]] | None:
    """The strings and numbers in a JSON object or list, and their paths; ``None`` where ``text`` is none."""
    try:
        tree = _TREE.decode(text.encode())
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None
    return list(_leaves(tree, ())) if isinstance(tree, dict | list) else None


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _leaves(inner, (*path, at))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, str(value)
