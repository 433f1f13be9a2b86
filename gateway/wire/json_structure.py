"""Judges JSON text by its shape, in linear time and without building anything from it.

All of these take text that a parser has already found well-formed UTF-8 JSON, except ``has_lone_surrogate``.
"""

import re
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

_BRACKET_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # one down or one up, as signed bytes
_ALL_BUT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_BACKSLASH = ord("\\")
"""As a number, which is found in bytes at once: bytes are taken for a number first, with an error made and dropped."""
_MEMBER_NAME = re.compile(rb'[ \t\r\n{,]*"[^"\\]*+(?:\\.[^"\\]*+)*+"[ \t\r\n]*:[ \t\r\n]*')
_SURROGATE_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def outside_strings(text: bytes) -> bytes:
    """The text without its strings: what is left are brackets, commas, colons, numbers and words."""
    if _BACKSLASH in text:
        # An escape begins at the first backslash of a run, so pairs from there are escaped backslashes.
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(text.split(b'"')[::2])


def is_deeper(text: bytes, max_depth: int) -> bool:
    """Whether arrays and objects are nested deeper than ``max_depth``. Brackets in strings do not count."""
    if not _has_more_brackets(text, max_depth):
        return False
    steps = outside_strings(text).translate(_BRACKET_STEPS, _ALL_BUT_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) > max_depth


def _has_more_brackets(text: bytes, limit: int) -> bool:
    """Whether more than ``limit`` brackets open. Searches: on long strings that is far quicker than counting."""
    opened = 0
    for bracket in (b"[", b"{"):
        at = text.find(bracket)
        while at >= 0:
            opened += 1
            if opened > limit:
                return True
            at = text.find(bracket, at + 1)
    return False


def repeats_a_name(text: bytes, values: Iterable[bytes]) -> bool:
    """Whether the object ``text`` gives a name twice, if ``values`` are what a parser kept: the last of each name.

    Steps over one member for each value, without looking into it. Where a name is repeated there are more members than
    values, so the steps meet another value or end too early.
    """
    at = 0
    for value in values:
        name = _MEMBER_NAME.match(text, at)
        if name is None or not text.startswith(value, name.end()):
            return True
        at = name.end() + len(value)
    return text[at:].strip(b" \t\r\n{}") != b""


def has_lone_surrogate(text: bytes) -> bool:
    """Whether an escape names half of a surrogate pair: legal JSON text that no UTF-8 can hold."""
    if _BACKSLASH not in text or _SURROGATE.search(text) is None:
        return False
    escapes = text.replace(b"\\\\", b"")
    return _SURROGATE.search(_SURROGATE_PAIR.sub(b"", escapes)) is not None


def tells_a_name_twice(text: bytes, value: Any) -> bool:
    """Whether an object somewhere in ``text``, which was parsed as ``value``, gives a name twice.

    A parser keeps one of the two, and an upstream's may keep the other: what nobody has looked at.
    """
    return outside_strings(text).count(b":") != _members(value)


def _members(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_members, value.values()))
    return sum(map(_members, value)) if isinstance(value, list) else 0
