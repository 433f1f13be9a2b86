"""Everything that is not inference: models, health, metrics; and the front that every request comes through."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import Struct
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.attempt.answer_headers import error_headers
from gateway.door import Door, new_request_id
from gateway.endpoints import OPERATIONS
from gateway.engine_page import engine_page
from gateway.errors import ClientError, Forbidden, HeadraceError, MethodNotAllowed, NotFound, UpgradeRefused
from gateway.exchange import RawHeaders
from gateway.fleet.fleet import Fleet
from gateway.metrics_key import MetricsKey
from gateway.openapi.document_page import DocumentPage
from gateway.openapi.page import Page, json_answer
from gateway.openapi.told import JSON, Answer, Told, json_answer_of
from gateway.pages.models import ModelPages
from gateway.pages.ollama import RUNNING, OllamaPages, greets, speaks_ollama
from gateway.ports import Backend
from gateway.rules.world import World
from gateway.wire import anthropic_errors, ollama_errors
from gateway.wire.anthropic_models import is_anthropic_client
from gateway.wire.openai_errors import error_body

_OPEN_METRICS = "application/openmetrics-text"
_PLAIN = "text/plain"
_WHERE_TO_LOOK = "/openapi.json has all that is served, /v1/models what can be asked for"
_NO_SUCH_PATH = (
    "nothing is served at this path: GET /openapi.json has all that is; the base URL of OpenAI's clients ends in /v1, "
    "that of all others without it"
)


class State(Struct, kw_only=True):
    """Whether new work is welcome, and what each backend says."""

    ready: bool
    backends: dict[str, str]


class Home(Struct, kw_only=True):
    """Who is here."""

    name: Literal["headrace"]
    docs: str
    ollama: str


class Health(Struct, kw_only=True):
    """The process lives."""

    status: Literal["ok"]


class EngineList(Struct, kw_only=True):
    """What the engines on this machine say of themselves."""

    object: Literal["list"]
    data: list[dict[str, Any]]


class SuccessReport(Struct, kw_only=True):
    """What was learned of each route that is for the caller."""

    object: Literal["success"]
    routes: dict[str, dict[str, Any]]


_HOME = Told(summary="Who is here", answers=json_answer_of("A greeting.", Home), open=True, tag="health")
_HEALTH = Told(summary="Whether the process lives", answers=json_answer_of("It does.", Health), open=True, tag="health")
_READY = Told(
    summary="Whether new work is welcome",
    answers={
        200: Answer(words="At least one backend takes requests.", shapes={JSON: State}),
        503: Answer(words="None does, or this gateway drains.", shapes={JSON: State}),
    },
    open=True,
    tag="health",
)
_METRICS = Told(
    summary="Metrics for Prometheus",
    answers={
        200: Answer(
            words="Text for Prometheus, or OpenMetrics where asked for.",
            shapes={kind: {"type": "string"} for kind in (_PLAIN, _OPEN_METRICS)},
        )
    },
    errors=(Forbidden,),
    tag="health",
)
_ENGINE = Told(summary="The engines on this machine", answers=json_answer_of("Each of them.", EngineList))
_SUCCESS = Told(summary="What was learned of success", answers=json_answer_of("By route.", SuccessReport))

PROBES = frozenset({"/", "/healthz", "/readyz"})
"""What answers without a key: load balancers and orchestrators have none."""
METRICS = "/metrics"
"""What is the operator's to read: tenants' keys do not open it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether new work is welcome, and what each backend says."""

    ready: bool
    reasons: Mapping[str, str]


def readiness_of(
    backends: Mapping[str, Backend], fleet: Fleet, *, trouble: Mapping[str, str], draining: bool
) -> Readiness:
    """Ready while at least one backend is not down and nothing drains; ``trouble`` is told besides.

    One that cools is named with its reason and leaves the gateway ready: it rests for seconds, and a gateway that went
    in and out of rotation with a provider's limits would take its other routes along.
    """
    facts = {name: backend.facts() for name, backend in backends.items()}
    reasons = {name: known.down or fleet.cooling(name, known) or "up" for name, known in facts.items()}
    anything_up = any(known.down is None for known in facts.values())
    return Readiness(ready=anything_up and not draining, reasons={**reasons, **trouble})


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the site shows, asked for at each request since a reload may replace it. ``pages`` are more routes."""

    world: Callable[[], World]
    door: Callable[[], Door]
    readiness: Callable[[], Readiness]
    metrics: Callable[[str], tuple[bytes, str]]
    metrics_key: MetricsKey
    started_unix_s: int
    success: Callable[[], Mapping[str, Any]] = dict
    pages: Sequence[Page] = ()


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
            if scope["path"] not in PROBES and scope["path"] != METRICS:
                self._door().identity(scope["headers"])
            if scope["path"] in OPERATIONS:
                raise _refusal_of(scope)
        except ClientError as error:
            await _error_response(error, scope["path"], scope["headers"])(scope, receive, send)
        else:
            await self._site(scope, receive, send)


def _refusal_of(scope: Scope) -> ClientError:
    """Why a path of inference takes no GET. A client that tries for a WebSocket is told at once that there is none."""
    if any(name == b"upgrade" and value.lower() == b"websocket" for name, value in scope["headers"]):
        return UpgradeRefused("answers are streamed as server-sent events: POST here")
    return MethodNotAllowed("POST")


def build_site(outlook: Outlook, *, lifespan: Any) -> Starlette:
    """The Starlette application of the routes that are not inference."""
    routes: list[Any] = [
        *_own_pages(outlook),
        *ModelPages(outlook.world, door=outlook.door, started_unix_s=outlook.started_unix_s).routes(),
        *OllamaPages(outlook.world, door=outlook.door, started_unix_s=outlook.started_unix_s).routes(),
        *outlook.pages,
    ]
    routes += DocumentPage(lambda: routes).routes()
    handlers: dict[Any, Any] = {HTTPException: _framework_error, HeadraceError: _own_error, Exception: _bug}
    site = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    site.router.redirect_slashes = False  # to an address made of the client's own Host header
    return site


def _own_pages(outlook: Outlook) -> list[Page]:
    async def home(request: Request) -> Response:
        if greets(request.headers):
            return Response(RUNNING, media_type=_PLAIN)
        return json_answer({"name": "headrace", "docs": _WHERE_TO_LOOK, "ollama": RUNNING})

    async def healthz(_: Request) -> Response:
        return json_answer({"status": "ok"})

    async def readyz(_: Request) -> Response:
        state = outlook.readiness()
        return json_answer({"ready": state.ready, "backends": state.reasons}, status=200 if state.ready else 503)

    async def metrics(request: Request) -> Response:
        outlook.metrics_key.check(outlook.door(), request.scope["headers"])
        body, content_type = outlook.metrics(request.headers.get("accept", ""))
        return Response(body, headers={"content-type": content_type})

    async def engine(_: Request) -> Response:
        return json_answer(engine_page(outlook.world().backends))

    async def success(request: Request) -> Response:
        """Of the routes that are for the caller."""
        allowed = outlook.door().identity(request.scope["headers"]).routes
        known = {name: told for name, told in outlook.success().items() if allowed is None or name in allowed}
        return json_answer({"object": "success", "routes": known})

    return [
        Page("/", home, _HOME),
        Page("/healthz", healthz, _HEALTH),
        Page("/readyz", readyz, _READY),
        Page(METRICS, metrics, _METRICS),
        Page("/v1/engine", engine, _ENGINE),
        Page("/v1/success", success, _SUCCESS),
    ]


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
    return _error_response(error, request.url.path, request.headers.raw)


def _error_response(error: HeadraceError, path: str, headers: RawHeaders) -> Response:
    """The error in the shape of the client's own API."""
    if speaks_ollama(path):
        body = ollama_errors.error_body(error)
    else:
        body = anthropic_errors.error_body(error) if is_anthropic_client(path, headers) else error_body(error)
    response = Response(body, status_code=error.http_status)
    response.raw_headers += error_headers(new_request_id(), error)
    return response
