"""The pages that Ollama's clients ask for besides inference: which models there are, what each can do, who is here.

Models are not pulled, made or deleted here: that is the policy file's, and whoever tries is told so in Ollama's words.
"""

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from gateway.door import Door
from gateway.errors import (
    BodyTooLarge,
    InvalidRequest,
    ModelNotFound,
    RequestTimeout,
    Unsupported,
    UnsupportedMediaType,
)
from gateway.facts import ModelFacts
from gateway.openapi.page import Page
from gateway.openapi.told import Told, json_answer_of
from gateway.pages.json_answer import json_answer
from gateway.pages.request_body import body_of
from gateway.rules.cards import model_at
from gateway.rules.tenancy import Identity
from gateway.rules.world import World
from gateway.types import Operation
from gateway.wire.json_body import decode, skim
from gateway.wire.ollama_counts import utc
from gateway.wire.ollama_format import CAPABILITIES
from gateway.wire.ollama_request import plain_name

API_VERSION = "0.13.3"
"""The release of Ollama whose endpoints these are: the first that has all of those that we serve."""

_MOST_BODY_BYTES = 64 * 1024
_MOST_DEPTH = 32
_BODY_TIMEOUT_S = 10.0
_NEVER = "9999-12-31T23:59:59Z"
_ARCHITECTURE = "headrace"
_REFUSED: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("POST", "/api/pull"): "models are not pulled here",
        ("POST", "/api/push"): "models are not pushed here",
        ("POST", "/api/create"): "models are not made here",
        ("POST", "/api/copy"): "models are not copied here",
        ("DELETE", "/api/delete"): "models are not deleted here",
        ("POST", "/api/blobs/{digest}"): "files of models are not kept here",
    }
)


class Version(Struct, kw_only=True):
    """The release of Ollama whose endpoints are served."""

    version: str


class OllamaModelList(Struct, kw_only=True):
    """Models as Ollama lists them."""

    models: list[dict[str, Any]]


class Shown(Struct, kw_only=True):
    """One model as Ollama shows it."""

    details: dict[str, Any]
    model_info: dict[str, Any]
    capabilities: list[str]
    modified_at: str


class _Named(Struct, kw_only=True):
    model: str | None = None
    name: str | None = None
    verbose: bool | None = None


def _named_by(field: str) -> dict[str, Any]:
    return {"properties": {field: {"type": "string", "minLength": 1}}, "required": [field]}


ShowBody = Annotated[_Named, Meta(extra_json_schema={"anyOf": [_named_by("model"), _named_by("name")]})]
"""A body, as a document tells it."""

_NAMED = msgspec.json.Decoder(_Named)


class OllamaPages:
    """The routes.

    Args:
        world: whose models they are, asked for at each request since a reload may replace it.
        door: who asks: names that are not for a tenant are not told to it.
        started_unix_s: what is said of when a model was made.
    """

    def __init__(self, world: Callable[[], World], *, door: Callable[[], Door], started_unix_s: int) -> None:
        self._world = world
        self._door = door
        self._made_at = utc(started_unix_s)

    def routes(self) -> list[Page]:
        """The routes, for the site."""
        refused = [_refusal(path, method, words) for (method, path), words in _REFUSED.items()]
        return [
            Page("/api/version", self._version, _told("Whose API this is", Version)),
            Page("/api/tags", self._tags, _told("What can be asked for", OllamaModelList)),
            Page("/api/ps", self._ps, _told("What can be asked for now", OllamaModelList)),
            Page("/api/show", self._show, _SHOW, method="POST"),
            *refused,
        ]

    async def _version(self, _: Request) -> Response:
        return json_answer({"version": API_VERSION})

    async def _tags(self, request: Request) -> Response:
        world = self._world()
        return json_answer({"models": [self._entry(world, name) for name in self._models(world, request)]})

    async def _ps(self, request: Request) -> Response:
        """The models that somebody serves now: those are as good as loaded."""
        world = self._world()
        ready = [name for name in self._models(world, request) if any(known for known in _serving(world, name))]
        beside = {"expires_at": _NEVER, "size_vram": 0}
        entries = [(self._entry(world, name), _window(world, name)) for name in ready]
        return json_answer(
            {"models": [{**entry, **beside, "context_length": window or 0} for entry, window in entries]}
        )

    async def _show(self, request: Request) -> Response:
        body = await body_of(request, most_bytes=_MOST_BODY_BYTES, silence_s=_BODY_TIMEOUT_S, longest_s=_BODY_TIMEOUT_S)
        skim(body, max_depth=_MOST_DEPTH)
        asked = decode(_NAMED, body)
        given, world = asked.model or asked.name, self._world()
        if not given:
            raise InvalidRequest("model is required", param="model")
        name = given if given in world.models() else plain_name(given)
        world.route_for(self._identity(request), name)  # or there is no such model, for all that it may know
        window = _window(world, name)  # of a name that only a pattern answers, too
        info: dict[str, Any] = {"general.architecture": _ARCHITECTURE, "general.basename": name}
        if window is not None:
            info[f"{_ARCHITECTURE}.context_length"] = window
        shown = {"details": _details(world, name), "model_info": info, "modified_at": self._made_at}
        return json_answer({**shown, "capabilities": _capabilities(world, name)})

    def _identity(self, request: Request) -> Identity:
        return self._door().identity(request.scope["headers"])

    def _models(self, world: World, request: Request) -> tuple[str, ...]:
        return world.models_for(self._identity(request))

    def _entry(self, world: World, name: str) -> dict[str, Any]:
        """A line of a list. Its digest stands for the name alone: what is behind it is the policy file's to say."""
        return {
            "name": name,
            "model": name,
            "modified_at": self._made_at,
            "size": 0,
            "digest": hashlib.sha256(name.encode()).hexdigest(),
            "details": _details(world, name),
        }


def _told(summary: str, shape: Any) -> Told:
    return Told(summary=summary, answers=json_answer_of("As Ollama tells it.", shape), envelope="ollama", tag="ollama")


_SHOW = Told(
    summary="One model",
    answers=json_answer_of("As Ollama tells it.", Shown),
    errors=(InvalidRequest, ModelNotFound, RequestTimeout, BodyTooLarge, UnsupportedMediaType),
    body=ShowBody,
    envelope="ollama",
    tag="ollama",
)


def _refusal(path: str, method: str, words: str) -> Page:
    """A route of Ollama's that is not served."""

    async def refuse(_: Request) -> Response:
        raise Unsupported(f"{words}: which models there are is for the gateway's policy file to say")

    told = Told(summary=f"Not served: {words}", answers={}, errors=(Unsupported,), envelope="ollama", tag="ollama")
    return Page(path, refuse, told, method=method)


def _facts(world: World, name: str) -> list[ModelFacts]:
    """What is known of a model wherever it may be served."""
    found = []
    for target in world.match(name).targets:
        facts = world.backends[target.backend].facts()
        found.append(facts.models.get(model_at(target, facts, name), facts.unlisted))
    return found


def _serving(world: World, name: str) -> list[bool]:
    """Of each backend that may serve a model, whether it is up."""
    return [world.backends[target.backend].facts().down is None for target in world.match(name).targets]


def _window(world: World, name: str) -> int | None:
    """The largest window that a model is served with; ``None`` where nobody says."""
    return max((facts.context_tokens for facts in _facts(world, name) if facts.context_tokens), default=None)


def _details(world: World, name: str) -> dict[str, Any]:
    """What Ollama knows of a model's file, of which we know how its weights are stored, where a card says so."""
    precisions = (facts.card.precision for facts in _facts(world, name) if facts.card is not None)
    quantization = next((precision.upper() for precision in precisions if precision), "")
    told = dict.fromkeys(("parent_model", "format", "family", "parameter_size"), "")
    return {**told, "families": [], "quantization_level": quantization}


def _capabilities(world: World, name: str) -> list[str]:
    """What a model can do, in Ollama's words; where nobody says, it is taken to be able."""
    able: set[str] = set()
    for target in world.match(name).targets:
        facts = world.backends[target.backend].facts()
        known = facts.models.get(model_at(target, facts, name), facts.unlisted).capabilities
        able |= {word for word, ours in CAPABILITIES.items() if known is None or ours in known}
        writes = facts.operations - {Operation.EMBEDDING, Operation.OLLAMA_EMBED, Operation.OLLAMA_EMBEDDINGS}
        able |= {"completion"} if writes else {"embedding"}
    return ["completion", *sorted(able - {"completion"})] if "completion" in able else sorted(able)
