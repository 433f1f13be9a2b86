"""What comes whole, a request or an answer, as guards see it, and with other words in it."""

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import msgspec

from gateway.guard import Text
from gateway.guarding.transcript import Transcript
from gateway.types import ChatRequest, Operation
from gateway.wire.json_body import opened_fields
from gateway.wire.json_edits import Path, with_values
from gateway.wire.json_structure import outside_strings, tells_a_name_twice
from gateway.wire.places import REQUEST_FIELDS, Place, answer_places, beside, has_tokens, request_places
from gateway.wire.upstream_json import opened_object

MOST_MEMBERS = 65_536
"""In a request, or in the arguments of its calls: to look into more would keep everybody else waiting for seconds."""

_ENCODE = msgspec.json.Encoder().encode


class AnswerTexts(Protocol):
    """The texts of an answer's body. ``unreadable`` is why nobody can look at it; empty where somebody can."""

    transcript: Transcript
    unreadable: str

    def resaid(self, body: bytes, texts: Sequence[str]) -> bytes:
        """The body, in which the transcript reads ``texts``."""
        ...


class WholeTexts:
    """The texts at ``places`` of a parsed JSON value, ``tree``."""

    __slots__ = ("_places", "_tree", "transcript", "unreadable")

    def __init__(self, tree: Any, places: Sequence[Place], *, unreadable: str = "") -> None:
        self._tree = tree
        self._places = places
        self.transcript = Transcript([Text(place.text, place.kind, place.role) for place in places])
        self.unreadable = unreadable

    def edits(self, texts: Sequence[str]) -> dict[Path, bytes]:
        """The values that change, by their paths, once the transcript reads ``texts``."""
        changes: dict[Path, bytes] = {}
        for at, text in self.transcript.rewritten(texts).items():
            place = self._places[at]
            changes |= dict(beside(self._tree, place.path))
            changes[place.path] = text.encode() if place.is_json else _ENCODE(text)
        return changes

    def resaid(self, body: bytes, texts: Sequence[str]) -> bytes:
        """See ``AnswerTexts.resaid``."""
        return with_values(body, self.edits(texts))


_TOO_MANY = WholeTexts({}, (), unreadable=f"it has more than {MOST_MEMBERS} members")


def told_once(body: bytes) -> bytes:
    """An answer's body, of two members of one name without the first, at which nobody would look.

    Raises:
        UpstreamInvalid: nobody can read it.
    """
    tree = opened_object(body)
    return _ENCODE(tree) if tells_a_name_twice(body, tree) else body


def answer_texts(operation: Operation, body: bytes) -> WholeTexts:
    """The texts of an answer's body.

    Raises:
        UpstreamInvalid: nobody can read it.
    """
    tree = opened_object(body)
    return WholeTexts(tree, answer_places(operation, tree))


def request_texts(request: ChatRequest) -> WholeTexts:
    """The texts of a request.

    Raises:
        InvalidRequest: it holds a number that is out of range.
    """
    operation, raw = request.arrival.operation, request.raw
    looked_at = {name: bytes(raw[name]) for name in REQUEST_FIELDS.get(operation, ()) if name in raw}
    if _has_too_many_members(looked_at.values()):
        return _TOO_MANY
    tree = opened_fields(raw, looked_at)
    twice = any(tells_a_name_twice(value, tree[name]) for name, value in looked_at.items())
    why_not = "a name is there twice" if twice else _why_not(request, tree)
    places = request_places(operation, tree)
    if sum(place.text.count(",") for place in places if place.kind == "arguments") > MOST_MEMBERS:
        return _TOO_MANY
    return WholeTexts(tree, places, unreadable=why_not)


def _has_too_many_members(values: Collection[bytes]) -> bool:
    """Known by counting, before anything is built; most requests have fewer commas, even those in their texts."""
    if sum(value.count(b",") for value in values) <= MOST_MEMBERS:
        return False
    quotes = sum(value.count(b'"') - value.count(b'\\"') for value in values)
    return quotes > 4 * MOST_MEMBERS or sum(outside_strings(value).count(b",") for value in values) > MOST_MEMBERS


def _why_not(request: ChatRequest, tree: Any) -> str:
    """Why nobody can look at all that the request says; empty where somebody can."""
    operation = request.arrival.operation
    if operation not in REQUEST_FIELDS or request.form is not None:
        return "the body is no text"
    return "the prompt is tokens" if has_tokens(operation, tree) else ""


def body_with(request: ChatRequest, edits: dict[Path, bytes]) -> bytes:
    """The request's body with values changed; all other members as the client wrote them."""
    fields = dict(request.raw)
    for name in {str(path[0]) for path in edits}:
        inner = {path[1:]: value for path, value in edits.items() if path[0] == name}
        fields[name] = msgspec.Raw(with_values(bytes(fields[name]), inner))
    return _ENCODE(fields)
