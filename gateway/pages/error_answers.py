"""Errors as answers, each in the shape of the client's own API."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from gateway.attempt.answer_headers import error_headers
from gateway.door import new_request_id
from gateway.errors import HeadraceError, MethodNotAllowed, NotFound
from gateway.exchange import RawHeaders
from gateway.pages.ollama_greeting import speaks_ollama
from gateway.wire import anthropic_errors, ollama_errors
from gateway.wire.anthropic_models import is_anthropic_client
from gateway.wire.openai_errors import error_body

_NO_SUCH_PATH = (
    "nothing is served at this path: GET /openapi.json has all that is; the base URL of OpenAI's clients ends in /v1, "
    "that of all others without it"
)


def error_answer(error: HeadraceError, path: str, headers: RawHeaders) -> Response:
    """The answer to who asked for ``path``."""
    if speaks_ollama(path):
        body = ollama_errors.error_body(error)
    else:
        body = anthropic_errors.error_body(error) if is_anthropic_client(path, headers) else error_body(error)
    response = Response(body, status_code=error.http_status)
    response.raw_headers += error_headers(new_request_id(), error)
    return response


async def _framework_error(request: Request, error: HTTPException) -> Response:
    """What Starlette found out by itself, in our envelope."""
    if error.status_code == 405:  # noqa: PLR2004  # the router's own
        routes = request.app.routes
        path = next(route.path for route in routes if route.matches(request.scope)[0] is not Match.NONE)
        allowed = {method for route in routes if route.path == path for method in route.methods}
        return _told(request, MethodNotAllowed(", ".join(sorted(allowed))))
    return _told(request, NotFound(_NO_SUCH_PATH))


async def _own_error(request: Request, error: HeadraceError) -> Response:
    return _told(request, error)


async def _bug(request: Request, __: Exception) -> Response:
    return _told(request, HeadraceError("something broke on our side"))


def _told(request: Request, error: HeadraceError) -> Response:
    return error_answer(error, request.url.path, request.headers.raw)


ERROR_ANSWERS: Mapping[Any, Callable[..., Awaitable[Response]]] = MappingProxyType(
    {HTTPException: _framework_error, HeadraceError: _own_error, Exception: _bug}
)
"""For Starlette, by the class of what was raised."""
