"""The client's words in a conversation: what must never become a control token.

They are marked in the tree that a template renders by being `Words`; everything else there is ours. `broken` and
`StandIns` are the two ways in which `prompt.py` renders them.
"""

import json
import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

__all__ = ["ControlTexts", "StandIns", "Words", "in_words", "replaced"]


class Words(str):
    """A client's own text."""

    __slots__ = ()


_SCHEMA_WORDS = frozenset({
    "$defs", "$id", "$ref", "$schema", "additionalProperties", "allOf", "anyOf", "array", "boolean", "const",
    "default", "description", "enum", "format", "function", "integer", "items", "maxItems", "maxLength", "maximum",
    "minItems", "minLength", "minimum", "name", "not", "null", "number", "object", "oneOf", "parameters", "pattern",
    "properties", "required", "strict", "string", "title", "type", "uniqueItems",
})  # fmt: skip
"""What tool definitions are made of, and templates look for; they hold no control text."""


def in_words(value: Any) -> Any:
    """A parsed JSON value with all texts in it, names of members included, as the client's words."""
    if isinstance(value, str):
        return value if value in _SCHEMA_WORDS else Words(value)
    if isinstance(value, list):
        return [in_words(item) for item in value]
    if isinstance(value, dict):
        return {in_words(name): in_words(item) for name, item in value.items()}
    return value


def replaced(value: Any, change: Callable[[str], str]) -> Any:
    """The tree again, with each client's text changed, and no `Words` left in it."""
    if isinstance(value, Words):
        return change(str(value))
    if isinstance(value, list):
        return [replaced(item, change) for item in value]
    if isinstance(value, dict):
        return {replaced(name, change): replaced(item, change) for name, item in value.items()}
    return value


class ControlTexts:
    """What reads like a control token of one model."""

    def __init__(self, texts: Iterable[str]) -> None:
        longest_first = sorted({text for text in texts if text}, key=len, reverse=True)
        # A lookahead finds control texts that overlap; without any, the pattern finds nothing.
        self._pattern = re.compile(f"(?=({'|'.join(map(re.escape, longest_first))}))" if longest_first else r"(?!)")

    def broken(self, text: str) -> list[str]:
        """`text` in pieces none of which holds a control text: each is cut after its first character."""
        cuts = [0, *(match.start() + 1 for match in self._pattern.finditer(text)), len(text)]
        return [text[start:end] for start, end in pairwise(cuts)]


class StandIns:
    """Opaque numbers in place of the client's words.

    Args:
        nonce: Digits that nobody can guess.
    """

    def __init__(self, nonce: str) -> None:
        self._nonce = nonce
        self._originals: list[str] = []
        self._in_json = re.compile(rf"{nonce}0(\d{{7}})")
        self.pattern = re.compile(rf"{nonce}([01]\d{{7}})")
        """Finds them; its group is what `original` wants."""

    def stand_in(self, text: str) -> str:
        """What is rendered in place of `text`; its outer white space is kept, as templates trim."""
        core = text.strip()
        if not core:
            return text
        before = text[: len(text) - len(text.lstrip())]
        after = text[len(text.rstrip()) :]
        self._originals.append(core)
        return f"{before}{self._nonce}0{len(self._originals) - 1:07d}{after}"

    def in_json(self, rendering: str) -> str:
        """JSON text with its stand-ins marked: their originals are escaped when they come back."""
        return self._in_json.sub(rf"{self._nonce}1\1", rendering)

    def original(self, number: str) -> str:
        """The text that a stand-in stands for, as it reads where that stands."""
        text = self._originals[int(number[1:])]
        return json.dumps(text, ensure_ascii=False)[1:-1] if number[0] == "1" else text
