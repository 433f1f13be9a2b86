"""Regular expressions that take linear time, and what they match in a text.

RE2 has no pattern that takes exponential time on some text, so nobody's prompt can hold up a gateway with one.
"""

import re
import warnings
from collections.abc import Sequence
from re import _parser  # type: ignore[attr-defined]  # the only one who knows how long a match can be
from typing import Any

from gateway.guard import Span

MOST_PATTERNS = 64
_MOST_CHARACTERS = 1000
_UNBOUNDED_CHARS = 100_000
_ESCAPED_BY_YAML = frozenset("\b\x1b\x85\u2028\u2029")
r"""What YAML makes of ``\b``, ``\e``, ``\N``, ``\L`` and ``\P`` in double quotes. Such a pattern would never match."""


class Patterns:
    """Several patterns, looked for together.

    Of matches that overlap, the one that begins first counts; of those that begin at the same place, that of the first
    pattern. ``longest_chars`` is how long a match can be, ``None`` where there is no bound that is known.

    Raises:
        ValueError: one of them is none, or matches an empty text; or the library is not installed.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        if not 0 < len(patterns) <= MOST_PATTERNS:
            raise ValueError(f"`patterns` must be 1 to {MOST_PATTERNS}")
        self._compiled = [_compiled(pattern) for pattern in patterns]
        self._any = _compiled("|".join(f"(?:{pattern})" for pattern in patterns), most_characters=None)
        longest = [_longest_chars(pattern) for pattern in patterns]
        self.longest_chars = None if None in longest else max(length for length in longest if length is not None)

    def finds(self, text: str) -> bool:
        """Whether one of them matches anywhere."""
        found = self._any.search(text.encode())
        return found is not None and (found.start() < found.end() or bool(self.spans(text, 0, "")))

    def spans(self, text: str, begin: int, instead: str) -> list[Span]:
        r"""What they match from ``begin`` on; what is before is seen by ``\b`` and the like."""
        encoded = text.encode()  # once: each search in a text encodes and counts all of it anew
        places = self._places(encoded, begin if text.isascii() else len(text[:begin].encode()))
        if text.isascii():
            return [Span(*place, instead) for place in places]
        spans: list[Span] = []
        at = at_bytes = 0
        for begin_bytes, end_bytes in places:
            first = at + len(encoded[at_bytes:begin_bytes].decode())
            at, at_bytes = first + len(encoded[begin_bytes:end_bytes].decode()), end_bytes
            spans.append(Span(first, at, instead))
        return spans

    def _places(self, encoded: bytes, begin: int) -> list[tuple[int, int]]:
        """The same in UTF-8, by its bytes."""
        found: list[tuple[int, int]] = []
        if self._any.search(encoded, begin) is None:  # nearly always, and one search is quicker than many
            return found
        following = [_next(pattern, encoded, begin) for pattern in self._compiled]
        while True:
            first = min((place for place in following if place is not None), key=lambda it: it[0], default=None)
            if first is None:
                return found
            found.append(first)
            for number, place in enumerate(following):
                if place is not None and place[0] < first[1]:
                    following[number] = _next(self._compiled[number], encoded, first[1])


def _next(pattern: Any, encoded: bytes, begin: int) -> tuple[int, int] | None:
    """The place of the next match that is not empty."""
    found = pattern.search(encoded, begin)
    while found is not None and found.start() == found.end():
        begin = found.end() + 1
        while begin < len(encoded) and encoded[begin] & 0xC0 == 0x80:  # noqa: PLR2004  # the rest of a character
            begin += 1
        found = pattern.search(encoded, begin) if begin <= len(encoded) else None
    return None if found is None else found.span()


def _compiled(pattern: str, *, most_characters: int | None = _MOST_CHARACTERS) -> Any:
    try:
        import re2  # noqa: PLC0415  # an extra: whoever lists the guards need not have it
    except ModuleNotFoundError as error:
        raise ValueError("this needs `pip install 'headrace[guards]'`") from error
    if not pattern or (most_characters is not None and len(pattern) > most_characters):
        raise ValueError(f"each of `patterns` must have 1 to {_MOST_CHARACTERS} characters")
    if not _ESCAPED_BY_YAML.isdisjoint(pattern):
        raise ValueError(r"a pattern in double quotes: there YAML reads `\b` as a backspace; put it in single quotes")
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0].decode("utf-8", "replace") if error.args and isinstance(error.args[0], bytes) else "wrong"
        raise ValueError(f"`{pattern}` is no pattern of RE2: {said}") from error
    if compiled.fullmatch(b"") is not None:
        raise ValueError(f"`{pattern}` matches an empty text")
    return compiled


def _longest_chars(pattern: str) -> int | None:
    """How many characters a match can have at most, as Python's own parser counts it.

    What it reads as shorter than RE2 does is taken to have no bound: to RE2 ``a{,2}`` are five plain characters.
    """
    if "{," in pattern:
        return None
    try:
        with warnings.catch_warnings(action="ignore"):  # of what a later Python may read differently; RE2 does not
            _, longest = _parser.parse(pattern).getwidth()
    except (re.error, RecursionError, OverflowError):  # RE2 knows some forms that Python does not
        return None
    return int(longest) if longest < _UNBOUNDED_CHARS else None
