"""The OpenAPI 3.1 document of a gateway: made of the routes that serve, each of which says of itself what is in it."""

import re
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from itertools import chain, groupby
from typing import Any

from gateway.endpoints import OPERATIONS
from gateway.errors import HeadersTooLarge, HeadraceError, Unauthenticated, UpstreamRefused
from gateway.openapi.answers import AnthropicError, OpenAIError
from gateway.openapi.headers import of_errors
from gateway.openapi.inference import told_of
from gateway.openapi.ollama_answers import OllamaError
from gateway.openapi.page import Page
from gateway.openapi.passed import told_of_passage
from gateway.openapi.schemas import Schemas
from gateway.openapi.told import JSON, Answer, Parameter, Told, in_path
from gateway.types import Operation
from gateway.wire.passages import PASSAGES

Fields = dict[str, Any]

_ENVELOPES: Mapping[str, tuple[Any, ...]] = {
    "openai": (OpenAIError,),
    "anthropic": (AnthropicError,),
    "either": (OpenAIError, AnthropicError),
    "ollama": (OllamaError,),
}
_SCHEMES: Mapping[str, Fields] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    "api-key": {"type": "apiKey", "in": "header", "name": "api-key"},
}
_INTRODUCTION = """Everything that a Headrace gateway serves.

Where the policy file has tenants, each request carries the key of one, in any of three headers; several must be the
same. Errors come in the envelope of the API that the client speaks. `Retry-After` is there where coming back may help,
and `x-request-id` on every answer to inference and on every error: the ledger has the request by that name.
"""

_IN_PATH = re.compile(r"\{(\w+)\}")

Routes = Mapping[tuple[str, str], Told]
"""What is told, by path and method."""


def told_routes(pages: Iterable[Any]) -> Routes:
    """What is told of every route: of inference, and of ``pages``."""
    found = {(path, "post"): _told_of(operation) for path, operation in OPERATIONS.items()}
    for page in pages:
        if isinstance(page, Page):
            found[page.path.replace(":path}", "}"), page.method.lower()] = page.told
    return found


def _told_of(operation: Operation) -> Told:
    return told_of_passage(PASSAGES[operation]) if operation in PASSAGES else told_of(operation)


def document(pages: Iterable[Any]) -> Fields:
    """The document. There is nothing of this gateway's policy file in it, nor of its environment."""
    routes = dict(sorted(told_routes(pages).items()))
    schemas, problems = Schemas(chain.from_iterable(map(_shapes, routes.values()))), _Problems()
    paths: Fields = {}
    for (path, method), told in routes.items():
        paths.setdefault(path, {})[method] = _operation(path, method, told, schemas, problems)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headrace", "version": version("headrace"), "description": _INTRODUCTION},
        "security": [{name: []} for name in _SCHEMES],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "responses": problems.components,
            "securitySchemes": dict(_SCHEMES),
        },
    }


class _Problems:
    """The answers that are errors, each once: many routes have the same."""

    def __init__(self) -> None:
        self.components: Fields = {}

    def place(self, envelope: str, status: str, problem: Fields) -> Fields:
        """A reference to it."""
        like = [name for name in self.components if name.startswith(f"{envelope}.{status}")]
        name = next((name for name in like if self.components[name] == problem), "")
        if not name:
            name = f"{envelope}.{status}" + (f".{len(like) + 1}" if like else "")
            self.components[name] = problem
        return {"$ref": f"#/components/responses/{name}"}


def _shapes(told: Told) -> Iterable[Any]:
    yield told.body
    yield from told.bodies.values()
    for answer in told.answers.values():
        yield from answer.shapes.values()
    yield _ENVELOPES[told.envelope]


def _operation(path: str, method: str, told: Told, schemas: Schemas, problems: _Problems) -> Fields:
    fields: Fields = {
        "operationId": "_".join([method, *(part for part in _words(path) if part)]),
        "summary": told.summary,
        "tags": [told.tag],
    }
    named = {parameter.name for parameter in told.parameters}
    unnamed = [in_path(name, "A part of the path.") for name in _IN_PATH.findall(path) if name not in named]
    if told.parameters or unnamed:
        fields["parameters"] = [_parameter(parameter) for parameter in (*unnamed, *told.parameters)]
    if told.body is not None:
        bodies = {told.body_media_type: told.body, **told.bodies}
        content = {kind: {"schema": schemas.of(body)} for kind, body in bodies.items()}
        fields["requestBody"] = {"required": True, "content": content}
    if told.open:
        fields["security"] = []
    answered = {str(int(status)): _answer(answer, schemas) for status, answer in told.answers.items()}
    errors = {
        status: problems.place(told.envelope, status, problem) for status, problem in _errors(told, schemas).items()
    }
    fields["responses"] = dict(sorted({**errors, **answered}.items()))
    return fields


def _words(path: str) -> Iterable[str]:
    return "".join(letter if letter.isalnum() else "_" for letter in path).split("_")


def _parameter(parameter: Parameter) -> Fields:
    return {
        "name": parameter.name,
        "in": parameter.where,
        "required": parameter.where == "path",
        "description": parameter.words,
        "schema": dict(parameter.schema),
    }


def _answer(answer: Answer, schemas: Schemas) -> Fields:
    fields: Fields = {"description": answer.words}
    if answer.headers:
        fields["headers"] = {
            name: {"schema": dict(schema), "required": name in answer.always} for name, schema in answer.headers.items()
        }
    if answer.shapes:
        fields["content"] = {kind: {"schema": schemas.of(shape)} for kind, shape in answer.shapes.items()}
    return fields


def _errors(told: Told, schemas: Schemas) -> Fields:
    """An answer for each status of an error; those that a provider chose are told together."""
    all_kinds: set[type[HeadraceError]] = {*told.errors, HeadraceError}
    if not told.open:
        all_kinds |= {Unauthenticated, HeadersTooLarge}
    by_status = sorted(all_kinds, key=lambda kind: (kind.http_status, kind.__name__))
    shapes = _ENVELOPES[told.envelope]
    schema = schemas.of(shapes)
    found: Fields = {}
    for status, kinds in groupby(by_status, key=lambda kind: kind.http_status):
        found[str(status)] = _error(tuple(kinds), schema)
    if UpstreamRefused in told.errors:
        found["4XX"] = _error((UpstreamRefused,), schema)
    return found


def _error(kinds: tuple[type[HeadraceError], ...], schema: Mapping[str, Any]) -> Fields:
    headers, always = of_errors(kinds)
    words = " ".join(f"`{kind.code}`: {(kind.__doc__ or '').partition(chr(10))[0]}" for kind in kinds)
    return {
        "description": words,
        "headers": {name: {"schema": dict(known), "required": name in always} for name, known in headers.items()},
        "content": {JSON: {"schema": schema}},
    }
