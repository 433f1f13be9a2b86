"""What is taken of an upstream's JSON: values of the kind that is wanted, and nothing where they are of another.

Providers send ``null``, numbers and lists where their own documentation promises text. Nobody is served worse for that.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.errors import UpstreamInvalid
from gateway.wire.openai_usage import MAX_TOKENS

Fields = Mapping[str, Any]

_DECODE = msgspec.json.Decoder(dict[str, Any]).decode
_NOTHING: Fields = {}


def opened_object(data: bytes) -> Fields:
    """The object that ``data`` is.

    Raises:
        UpstreamInvalid: it is none, or no JSON.
    """
    try:
        return _DECODE(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UpstreamInvalid("the upstream sent what is no part of an answer") from error


def text_of(value: Any) -> str:
    """The text; an empty one where it is none."""
    return value if isinstance(value, str) else ""


def text_at(fields: Fields, name: str) -> str:
    """The text in a field."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def object_at(fields: Fields, name: str) -> Fields:
    """The object in a field; an empty one where it is none."""
    value = fields.get(name)
    return value if isinstance(value, dict) else _NOTHING


def objects(value: Any) -> list[dict[str, Any]]:
    """Those of a list that are objects; none where it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def tokens_at(fields: Any, name: str) -> int:
    """The count of tokens in a field; zero where ``fields`` is no object, or the count is none or absurd."""
    value = fields.get(name) if isinstance(fields, dict) else None
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else 0
