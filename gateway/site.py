"""Everything that is not inference: models, health, metrics; and the front that every request comes through."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.attempt.answer_headers import error_headers
from gateway.door import Door, new_request_id
from gateway.endpoints import OPERATIONS
from gateway.engine_page import engine_page
from gateway.errors import ClientError, HeadraceError, MethodNotAllowed, ModelNotFound, NotFound, UpgradeRefused
from gateway.rules.cards import shown_cards
from gateway.rules.world import World
from gateway.wire import anthropic_errors
from gateway.wire.anthropic_models import is_anthropic_client, model_info, model_page
from gateway.wire.openai_errors import error_body

PROBES = frozenset({"/", "/healthz", "/readyz"})
"""What answers without a key: load balancers and orchestrators have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether new work is welcome, and what each backend says."""

    ready: bool
    reasons: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the site shows, asked for at each request since a reload may replace it. ``pages`` are more routes."""

    world: Callable[[], World]
    door: Callable[[], Door]
    readiness: Callable[[], Readiness]
    metrics: Callable[[str], tuple[bytes, str]]
    started_unix_s: int
    success: Callable[[], Mapping[str, Any]] = dict
    pages: Sequence[Route] = ()


class Front:
    """The ASGI application: inference by an exact path, everything else by Starlette, all behind the door."""

    def __init__(self, inference: ASGIApp, site: ASGIApp, door: Callable[[], Door]) -> None:
        self._inference = inference
        self._site = site
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Dispatches. The inference routes check the key themselves, so that a refusal is on the ledger too."""
        if scope["type"] != "http":
            await self._site(scope, receive, send)
        elif scope["path"] in OPERATIONS and scope["method"] == "POST":
            await self._inference(scope, receive, send)
        else:
            await self._guarded(scope, receive, send)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["path"] not in PROBES:
                self._door().identity(scope["headers"])
            if scope["path"] in OPERATIONS:
                raise _refusal_of(scope)
        except ClientError as error:
            await _error_response(error, is_anthropic_client(scope["path"], scope["headers"]))(scope, receive, send)
        else:
            await self._site(scope, receive, send)


def _refusal_of(scope: Scope) -> ClientError:
    """Why a path of inference takes no GET. A client that tries for a WebSocket is told at once that there is none."""
    if any(name == b"upgrade" and value.lower() == b"websocket" for name, value in scope["headers"]):
        return UpgradeRefused("answers are streamed as server-sent events: POST here")
    return MethodNotAllowed("POST")


def build_site(outlook: Outlook, *, lifespan: Any) -> Starlette:
    """The Starlette application of the routes that are not inference."""

    async def home(_: Request) -> Response:
        return _json({"name": "headrace", "docs": "/v1/models lists what can be asked for"})

    async def healthz(_: Request) -> Response:
        return _json({"status": "ok"})

    async def readyz(_: Request) -> Response:
        state = outlook.readiness()
        return _json({"ready": state.ready, "backends": state.reasons}, status=200 if state.ready else 503)

    async def metrics(request: Request) -> Response:
        body, content_type = outlook.metrics(request.headers.get("accept", ""))
        return Response(body, headers={"content-type": content_type})

    async def success(request: Request) -> Response:
        """Of the routes that are for the caller."""
        allowed = outlook.door().identity(request.scope["headers"]).routes
        known = {name: told for name, told in outlook.success().items() if allowed is None or name in allowed}
        return _json({"object": "success", "routes": known})

    routes = [
        Route("/", home),
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/metrics", metrics),
        _engine_route(outlook),
        Route("/v1/success", success),
        *_model_routes(outlook),
        *outlook.pages,
    ]
    handlers: dict[Any, Any] = {HTTPException: _framework_error, HeadraceError: _own_error, Exception: _bug}
    return Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)


def _model_routes(outlook: Outlook) -> list[Route]:
    async def models(request: Request) -> Response:
        world = outlook.world()
        if _asks_as_anthropic(request):
            return _json(model_page(world.models(), outlook.started_unix_s, request.query_params))
        cards = [_model_card(world, model, outlook.started_unix_s) for model in world.models()]
        return _json({"object": "list", "data": cards})

    async def model(request: Request) -> Response:
        name, world = request.path_params["model"], outlook.world()
        if name not in world.models():
            raise ModelNotFound("there is no such model; GET /v1/models lists those there are", param="model")
        if _asks_as_anthropic(request):
            return _json(model_info(name, outlook.started_unix_s))
        return _json(_model_card(world, name, outlook.started_unix_s))

    return [Route("/v1/models", models), Route("/v1/models/{model:path}", model)]


def _engine_route(outlook: Outlook) -> Route:
    async def engine(_: Request) -> Response:
        return _json(engine_page(outlook.world().backends))

    return Route("/v1/engine", engine)


def _model_card(world: World, model: str, created_unix_s: int) -> dict[str, Any]:
    card = {"id": model, "object": "model", "created": created_unix_s, "owned_by": world.owner(model)}
    providers = shown_cards(world.match(model), model, world.backends)
    return card | {"headrace": {"providers": providers}} if providers else card


def _json(content: Any, *, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status_code=status, media_type="application/json")


def _asks_as_anthropic(request: Request) -> bool:
    return is_anthropic_client(request.url.path, request.headers.raw)


async def _framework_error(request: Request, error: HTTPException) -> Response:
    """What Starlette found out by itself, in our envelope."""
    if error.status_code == 405:  # noqa: PLR2004  # the router's own
        allowed = (error.headers or {})["Allow"].split(", ")
        return _told(request, MethodNotAllowed(", ".join(sorted(allowed))))
    return _told(request, NotFound("there is no such route"))


async def _own_error(request: Request, error: HeadraceError) -> Response:
    return _told(request, error)


async def _bug(request: Request, __: Exception) -> Response:
    return _told(request, HeadraceError("something broke on our side"))


def _told(request: Request, error: HeadraceError) -> Response:
    return _error_response(error, _asks_as_anthropic(request))


def _error_response(error: HeadraceError, to_anthropic: bool) -> Response:  # noqa: FBT001  # private
    """The error in the shape of the client's own API."""
    body = anthropic_errors.error_body(error) if to_anthropic else error_body(error)
    response = Response(body, status_code=error.http_status)
    response.raw_headers += error_headers(new_request_id(), error)
    return response
