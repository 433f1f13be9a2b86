"""The front that every request comes through, and what answers without a tenant's key: health and metrics."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.door import Door
from gateway.endpoints import OPERATIONS
from gateway.errors import ClientError, MethodNotAllowed, UpgradeRefused
from gateway.fleet.fleet import Fleet
from gateway.metrics_key import MetricsKey
from gateway.pages.error_answers import ERROR_ANSWERS, error_answer
from gateway.pages.json_answer import json_answer
from gateway.pages.ollama_greeting import RUNNING, greets
from gateway.pages.open_paths import HEALTH, HOME, METRICS, PLAIN, PROBES, READY
from gateway.ports import Backend

_OPEN = PROBES | {METRICS}
_READING = frozenset({"GET", "HEAD"})
_WHERE_TO_LOOK = "/openapi.json has all that is served, /v1/models what can be asked for"

Endpoint = Callable[[Request], Awaitable[Response]]


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
class OpenPaths:
    """What answers without a tenant's key; all is asked for at each request, since a reload may replace it.

    ``metrics`` gives text and its type for what a scraper accepts.
    """

    door: Callable[[], Door]
    readiness: Callable[[], Readiness]
    metrics: Callable[[str], tuple[bytes, str]]
    metrics_key: MetricsKey

    def endpoints(self) -> Mapping[str, Endpoint]:
        """By path."""
        return {HOME: self._home, HEALTH: self._healthz, READY: self._readyz, METRICS: self._metrics}

    async def _home(self, request: Request) -> Response:
        if greets(request.headers):
            return Response(RUNNING, media_type=PLAIN)
        return json_answer({"name": "headrace", "docs": _WHERE_TO_LOOK, "ollama": RUNNING})

    async def _healthz(self, _: Request) -> Response:
        return json_answer({"status": "ok"})

    async def _readyz(self, _: Request) -> Response:
        state = self.readiness()
        return json_answer({"ready": state.ready, "backends": state.reasons}, status=200 if state.ready else 503)

    async def _metrics(self, request: Request) -> Response:
        self.metrics_key.check(self.door(), request.scope["headers"])
        body, content_type = self.metrics(request.headers.get("accept", ""))
        return Response(body, headers={"content-type": content_type})


def site_of(endpoints: Mapping[str, Endpoint], *, lifespan: Any) -> Starlette:
    """The Starlette application that starts and stops all, and has these paths to read."""
    routes = [Route(path, endpoint, methods=["GET"]) for path, endpoint in endpoints.items()]
    return Starlette(routes=routes, exception_handlers=dict(ERROR_ANSWERS), lifespan=lifespan)


class Front:
    """The ASGI application: inference by an exact path, all else behind the door.

    Args:
        inference: What answers ``POST`` on the paths of inference, and checks the key itself, so that a refusal is on
            the ledger too.
        site: What answers ``GET`` on the open paths.
        annex: What answers everything else.
        door: Who comes in.
    """

    def __init__(self, inference: ASGIApp, site: ASGIApp, annex: ASGIApp, door: Callable[[], Door]) -> None:
        self._inference = inference
        self._site = site
        self._annex = annex
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Dispatches."""
        if scope["type"] != "http":
            await self._site(scope, receive, send)
        elif scope["path"] in OPERATIONS and scope["method"] == "POST":
            await self._inference(scope, receive, send)
        elif scope["path"] in _OPEN and scope["method"] in _READING:
            await self._site(scope, receive, send)
        else:
            await self._guarded(scope, receive, send)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["path"] not in _OPEN:
                self._door().identity(scope["headers"])
            if scope["path"] in OPERATIONS:
                raise _refusal_of(scope)
        except ClientError as error:
            await error_answer(error, scope["path"], scope["headers"])(scope, receive, send)
        else:
            await self._annex(scope, receive, send)


def _refusal_of(scope: Scope) -> ClientError:
    """Why a path of inference takes no GET. A client that tries for a WebSocket is told at once that there is none."""
    if any(name == b"upgrade" and value.lower() == b"websocket" for name, value in scope["headers"]):
        return UpgradeRefused("answers are streamed as server-sent events: POST here")
    return MethodNotAllowed("POST")
