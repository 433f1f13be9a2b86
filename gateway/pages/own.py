"""What a gateway says of itself: who it is, how it is, its engines, and what it has learned of success."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from gateway.door import Door
from gateway.engine_page import engine_page
from gateway.errors import Forbidden
from gateway.openapi.page import Page
from gateway.openapi.told import JSON, Answer, Told, json_answer_of
from gateway.pages.json_answer import json_answer
from gateway.pages.open_paths import HEALTH, HOME, METRICS, OPEN_METRICS, PLAIN, READY
from gateway.rules.world import World


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


_OPEN: Mapping[str, Told] = {
    HOME: Told(summary="Who is here", answers=json_answer_of("A greeting.", Home), open=True, tag="health"),
    HEALTH: Told(
        summary="Whether the process lives", answers=json_answer_of("It does.", Health), open=True, tag="health"
    ),
    READY: Told(
        summary="Whether new work is welcome",
        answers={
            200: Answer(words="At least one backend takes requests.", shapes={JSON: State}),
            503: Answer(words="None does, or this gateway drains.", shapes={JSON: State}),
        },
        open=True,
        tag="health",
    ),
    METRICS: Told(
        summary="Metrics for Prometheus",
        answers={
            200: Answer(
                words="Text for Prometheus, or OpenMetrics where asked for.",
                shapes={kind: {"type": "string"} for kind in (PLAIN, OPEN_METRICS)},
            )
        },
        errors=(Forbidden,),
        tag="health",
    ),
}
_ENGINE = Told(summary="The engines on this machine", answers=json_answer_of("Each of them.", EngineList))
_SUCCESS = Told(summary="What was learned of success", answers=json_answer_of("By route.", SuccessReport))


class OwnPages:
    """The pages; ``open_paths`` are those that answer without a tenant's key, by their path.

    ``success`` reports what was learned, by route.
    """

    def __init__(
        self,
        open_paths: Mapping[str, Callable[..., Any]],
        *,
        world: Callable[[], World],
        door: Callable[[], Door],
        success: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._open_paths = open_paths
        self._world = world
        self._door = door
        self._success = success

    def routes(self) -> list[Page]:
        """The routes, for the site."""
        return [
            *(Page(path, self._open_paths[path], told) for path, told in _OPEN.items()),
            Page("/v1/engine", self._engine, _ENGINE),
            Page("/v1/success", self._learned, _SUCCESS),
        ]

    async def _engine(self, _: Request) -> Response:
        return json_answer(engine_page(self._world().backends))

    async def _learned(self, request: Request) -> Response:
        """Of the routes that are for the caller."""
        allowed = self._door().identity(request.scope["headers"]).routes
        known = {name: told for name, told in self._success().items() if allowed is None or name in allowed}
        return json_answer({"object": "success", "routes": known})
