"""What can be asked for: ``/v1/models``, in OpenAI's shape or Anthropic's, by who asks."""

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from gateway.door import Door
from gateway.errors import ModelNotFound
from gateway.openapi.page import Page
from gateway.openapi.told import JSON, Answer, Parameter, Told, in_path
from gateway.pages.json_answer import json_answer
from gateway.rules.cards import shown_cards
from gateway.rules.world import World
from gateway.wire.anthropic_models import is_anthropic_client, model_info, model_page


class ModelCard(Struct, kw_only=True):
    """A model as OpenAI tells it; ``headrace`` is who would answer, and what is known of how each computes it."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    headrace: dict[str, Any] = {}


class ModelList(Struct, kw_only=True):
    """All of them."""

    object: Literal["list"]
    data: list[ModelCard]


class AnthropicCard(Struct, kw_only=True):
    """A model as Anthropic tells it."""

    type: Literal["model"]
    id: str
    display_name: str
    created_at: str
    lifecycle: str


class AnthropicList(Struct, kw_only=True):
    """A page of them."""

    data: list[AnthropicCard]
    has_more: bool
    first_id: str | None
    last_id: str | None


_VERSION = Parameter(
    name="anthropic-version", words="Whoever sends it gets Anthropic's shapes, errors included.", where="header"
)
_PAGE = (
    Parameter(name="limit", words="Of a page in Anthropic's shape.", schema={"type": "string"}),
    Parameter(name="after_id", words="Cards after this one, likewise."),
    Parameter(name="before_id", words="Cards before this one, likewise."),
)


class ModelPages:
    """The routes.

    Args:
        world: whose models they are, asked for at each request since a reload may replace it.
        door: who asks: names that are not for a tenant are not told to it.
        started_unix_s: what a card says of when its model was made.
    """

    def __init__(self, world: Callable[[], World], *, door: Callable[[], Door], started_unix_s: int) -> None:
        self._world = world
        self._door = door
        self._started_unix_s = started_unix_s

    def routes(self) -> list[Page]:
        """The routes, for the site."""
        all_told = Told(
            summary="What can be asked for",
            answers={200: Answer(words="The models.", shapes={JSON: (ModelList, AnthropicList)})},
            parameters=(_VERSION, *_PAGE),
            envelope="either",
            tag="models",
        )
        one_told = Told(
            summary="One model",
            answers={200: Answer(words="The model.", shapes={JSON: (ModelCard, AnthropicCard)})},
            errors=(ModelNotFound,),
            parameters=(_VERSION, in_path("model", "Its name, as clients ask for it.")),
            envelope="either",
            tag="models",
        )
        return [Page("/v1/models", self._all, all_told), Page("/v1/models/{model:path}", self._one, one_told)]

    async def _all(self, request: Request) -> Response:
        world = self._world()
        models = self._models(world, request)
        if is_anthropic_client(request.url.path, request.headers.raw):
            return json_answer(model_page(models, self._started_unix_s, request.query_params))
        return json_answer({"object": "list", "data": [self._card(world, model) for model in models]})

    async def _one(self, request: Request) -> Response:
        name, world = request.path_params["model"], self._world()
        if name not in self._models(world, request):
            raise ModelNotFound("there is no such model; GET /v1/models lists those there are", param="model")
        if is_anthropic_client(request.url.path, request.headers.raw):
            return json_answer(model_info(name, self._started_unix_s))
        return json_answer(self._card(world, name))

    def _models(self, world: World, request: Request) -> tuple[str, ...]:
        return world.models_for(self._door().identity(request.scope["headers"]))

    def _card(self, world: World, model: str) -> dict[str, Any]:
        card = {"id": model, "object": "model", "created": self._started_unix_s, "owned_by": world.owner(model)}
        providers = shown_cards(world.match(model), model, world.backends)
        return card | {"headrace": {"providers": providers}} if providers else card
