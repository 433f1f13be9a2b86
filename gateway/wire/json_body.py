"""Strict JSON at the door: a body that is not what it should be is refused with words that quote nothing from it."""

import math
import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

import msgspec

from gateway.errors import InvalidRequest
from gateway.wire.json_structure import has_lone_surrogate, is_deeper, repeats_a_name

T = TypeVar("T")

_SKIMMER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ANYTHING = msgspec.json.Decoder()
_NOTHING_TYPED: frozenset[str] = frozenset()
_NUMBER_STARTS = frozenset(b"-0123456789")
_MAX_NAME_CHARS = 64
_NEAR_BYTES = 300
_MAX_FIELDS = 1000

_SPELT = frozenset(
    {
        "documents",
        "images",
        "input",
        "max_completion_tokens",
        "max_output_tokens",
        "max_tokens",
        "messages",
        "model",
        "n",
        "options",
        "prompt",
        "query",
        "stream",
        "suffix",
        "system",
        "tools",
    }
)
"""What is allowed, counted, looked at and paid for by these, and servers in Go read them in capitals, too."""

_PLACE = re.compile(r"(?s)(?P<words>.*?)(?: - at (?:`key` in )?`\$(?P<path>[^`]*)`)?\Z")
_WRONG_TYPE = re.compile(r"Expected `(?P<expected>[a-z0-9 |]+)`, got `(?P<got>[a-z0-9]+)`\Z")
_WRONG_VALUE = re.compile(r"Expected `(?P<expected>[a-z0-9 |]+)` (?P<bound>(?:of length )?[<>]=? -?[0-9.]+)\Z")
_MISSING = re.compile(r"Object missing required field `(?P<name>\w+)`\Z")
_BAD_BYTE = re.compile(r"\(byte (?P<at>\d+)\)\Z")
_NOT_FINITE = re.compile(rb"(?i)-?(?:nan|inf)")
_LAST_NAME = re.compile(rb'"(?P<name>[a-z][a-z_]{0,63})"\s*:\s*(?:\{[^{}]*|\[[^\[\]]*)?\Z')
_JSON_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


def skim(body: bytes, *, max_depth: int) -> dict[str, msgspec.Raw]:
    """Each top-level field as the bytes that the client wrote, after every check that needs no schema.

    Raises:
        InvalidRequest: as ``skim_typed`` says, or the body is nested too deeply.
    """
    fields = skim_typed(body, _NOTHING_TYPED)
    check_depth(body, max_depth)
    return fields


def skim_typed(body: bytes, typed: AbstractSet[str]) -> dict[str, msgspec.Raw]:
    """The same, where a schema is asked next that holds the fields named in ``typed`` against their types.

    How deeply the body is nested is left to ``check_depth``: who knows how much of it is text may spare the search.

    Raises:
        InvalidRequest: the body is empty, no UTF-8 JSON object, repeats a field, or holds a number or an escape that
            nobody could pass on.
    """
    if not body:
        raise InvalidRequest("the request body is empty: a JSON object is expected")
    if not (body.isascii() or _is_utf8(body)):
        raise InvalidRequest("the request body is not valid UTF-8")
    if has_lone_surrogate(body):
        raise InvalidRequest("the request body has an escape that is half of a surrogate pair")
    fields = decode(_SKIMMER, body)
    _check_members(body, fields)
    if not fields.keys() <= typed:
        _check_untyped(fields)
    return fields


def check_depth(body: bytes, max_depth: int) -> None:
    """Lets a body pass that is not nested too deeply.

    Raises:
        InvalidRequest: it is.
    """
    if is_deeper(body, max_depth):
        raise _too_deep(max_depth)


def decode(decoder: "msgspec.json.Decoder[T]", body: bytes, where: str = "") -> T:
    """The body as the decoder's type; or what stands in it at ``where``, a path.

    Raises:
        InvalidRequest: with ``param`` as a path such as ``messages[0].content``.
    """
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _explained(str(error), where) from None
    except msgspec.DecodeError as error:
        raise _malformed(str(error), body) from None
    except RecursionError:
        raise _too_deep(None) from None


def opened_fields(raw: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The fields of these names as Python has them; ``raw`` is what ``skim`` answers.

    Raises:
        InvalidRequest: one of them holds, however deep, a number that no float can; where nobody has to look into the
            field it goes on as it came.
    """
    return {name: opened_field(raw, name) for name in names}


def opened_field(raw: Mapping[str, Any], name: str) -> Any:
    """One of them."""
    try:
        return _ANYTHING.decode(raw[name])
    except (msgspec.DecodeError, RecursionError):
        shown = name[:_MAX_NAME_CHARS]
        raise InvalidRequest(f"{shown} holds a number that is out of range", param=shown) from None


def edit(raw: Mapping[str, Any], changes: Mapping[str, bytes | None]) -> bytes:
    """The object again with fields replaced, added or, for ``None``, removed; all others byte for byte.

    ``raw`` is what ``skim`` answers; the values of ``changes`` are JSON.
    """
    fields = dict(raw)
    for name, value in changes.items():
        if value is None:
            fields.pop(name, None)
        else:
            fields[name] = msgspec.Raw(value)
    return msgspec.json.encode(fields)


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _check_members(body: bytes, fields: dict[str, msgspec.Raw]) -> None:
    """Not too many names, and none twice."""
    if len(fields) > _MAX_FIELDS:
        raise InvalidRequest(f"the request body has more than {_MAX_FIELDS} fields")
    # Of an object with these members, written without blanks: there is no room for another in it.
    least_bytes = 1 + sum(map(len, fields)) + sum(map(len, fields.values())) + 4 * len(fields)
    if len(body) != least_bytes and repeats_a_name(body, map(bytes, fields.values())):
        raise InvalidRequest("the request body has a field twice")


def _check_untyped(fields: dict[str, msgspec.Raw]) -> None:
    """No number at the top that would become infinite or a denial of service, and no name that is nearly another's."""
    for name, value in fields.items():
        text = memoryview(value)
        if text[0] in _NUMBER_STARTS and not math.isfinite(float(text)):
            raise InvalidRequest("a number is out of range", param=name[:_MAX_NAME_CHARS])
    names = "".join(fields)
    if not (names.islower() and names.isascii()):
        _check_spelling(fields)


def _check_spelling(fields: dict[str, msgspec.Raw]) -> None:
    """No name that a reader who does not mind its case would take for another."""
    for name in fields:
        folded = name.casefold()
        if folded != name and (folded in fields or folded in _SPELT):
            raise InvalidRequest(f"the request body has a field that some would take for {folded[:_MAX_NAME_CHARS]}")


def _explained(words: str, where: str) -> InvalidRequest:
    """A validation error in JSON's words. Only its shape is used, so that a value in it cannot get through."""
    place = _PLACE.match(words)
    path = (where + (place["path"] or "" if place else "").replace("[...]", "")).lstrip(".")
    words = place["words"] if place else ""
    if missing := _MISSING.match(words):
        path = f"{path}.{missing['name']}" if path else missing["name"]
        said = "is required"
    elif wrong := _WRONG_TYPE.match(words):
        said = f"must be {_json_types(wrong['expected'])}, not {_json_types(wrong['got'])}"
    elif wrong := _WRONG_VALUE.match(words):
        said = f"must be {_json_types(wrong['expected'])} {wrong['bound']}"
    elif words.endswith("out of range"):
        said = "is a number out of range"
    else:
        said = "has a value that is not accepted"
    return InvalidRequest(f"{path or 'the request body'} {said}", param=path or None)


def _json_types(types: str) -> str:
    names = [_JSON_TYPES.get(name, name) for name in types.split(" | ")]
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _malformed(words: str, body: bytes) -> InvalidRequest:
    """The parser's complaint, with the field's name where the trouble is a number that JSON does not have."""
    bad_byte = _BAD_BYTE.search(words)
    if bad_byte is None:
        return InvalidRequest("the request body is not valid JSON: it is cut short or badly encoded")
    at = int(bad_byte["at"])
    for start in (at - 1, at):
        if start >= 0 and _NOT_FINITE.match(body, start):
            near = _LAST_NAME.search(body[max(start - _NEAR_BYTES, 0) : start])
            name = near["name"].decode() if near else None
            return InvalidRequest(f"{name or 'a number'} must be a finite number", param=name)
    return InvalidRequest(f"the request body is not valid JSON (at byte {at})")


def _too_deep(max_depth: int | None) -> InvalidRequest:
    bound = f" than {max_depth} levels" if max_depth is not None else ""
    return InvalidRequest(f"the request body is nested more deeply{bound or ' than we read'}")
