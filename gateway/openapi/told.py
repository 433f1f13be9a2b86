"""What a route says of itself, in the words that OpenAPI's document is made of. See ``gateway.openapi.document``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal

from gateway.errors import HeadraceError

JSON = "application/json"

Shape = Any
"""Of a body: a type that msgspec reads or writes, from which its schema is made, several of which one holds as a tuple,
a JSON schema as a mapping, or ``Events``; ``None`` where there is none."""

Envelope = Literal["openai", "anthropic", "either", "ollama"]
"""Whose errors a route tells: ``either`` where the client's headers decide between the first two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of the path, the query or a header; those of the path are always needed."""

    name: str
    words: str
    where: Literal["path", "query", "header"] = "query"
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """A stream of server-sent events: ``shapes`` are those of its data, of which each event has one.

    ``ended`` tells that OpenAI's ``[DONE]`` comes last, ``named`` that each event has its type as its name.
    """

    shapes: tuple[Any, ...]
    ended: bool = False
    named: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer that is no error: ``shapes`` are its bodies by media type, ``headers`` schemas by name.

    ``always`` are the headers that are there whatever the answer.
    """

    words: str
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    headers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    always: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One method of one path.

    Attributes:
        summary: a line for people.
        answers: what comes of it, by status.
        errors: the kinds of error that it tells besides those of every route; each is told with its own status.
        parameters: those of path, query and headers.
        body: of the request.
        body_media_type: what that is.
        bodies: other shapes that it may have, by media type.
        envelope: in which shape errors are told.
        tag: under which heading it stands.
        open: no key is needed.
    """

    summary: str
    answers: Mapping[int, Answer]
    errors: tuple[type[HeadraceError], ...] = ()
    parameters: tuple[Parameter, ...] = ()
    body: Shape = None
    body_media_type: str = JSON
    bodies: Mapping[str, Shape] = field(default_factory=dict)
    envelope: Envelope = "openai"
    tag: str = "headrace"
    open: bool = False


def json_answer_of(words: str, shape: Shape) -> Mapping[int, Answer]:
    """The usual case: a 200 with JSON in it."""
    return {HTTPStatus.OK: Answer(words=words, shapes={JSON: shape})}


def in_path(name: str, words: str, **schema: Any) -> Parameter:
    """A parameter of the path."""
    return Parameter(name=name, words=words, where="path", schema={"type": "string", "minLength": 1, **schema})
