"""JSON out of what a model wrote."""

import re
from typing import Any, NamedTuple

import msgspec

_FENCE = re.compile(r"\s*```[a-zA-Z0-9]{0,16}[ \t]*\n(?P<inside>.*?)\n?```\s*\Z", re.DOTALL)


class Parsed(NamedTuple):
    """The value, or what is wrong with the text (``fault``); where it is JSON the fault is empty."""

    value: Any
    fault: str


def parse(text: str, *, fenced: bool) -> Parsed:
    """The JSON value that ``text`` is, and nothing beside it; where ``fenced``, it may stand in a Markdown fence."""
    if fenced and (fence := _FENCE.match(text)):
        text = fence["inside"]
    if not text.strip():
        return Parsed(None, "no text")
    try:
        return Parsed(msgspec.json.decode(text), "")
    except msgspec.DecodeError:
        return Parsed(None, "no valid JSON")
    except (RecursionError, UnicodeEncodeError):  # the second: half of a surrogate pair, which no UTF-8 can hold
        return Parsed(None, "no JSON that can be read")
