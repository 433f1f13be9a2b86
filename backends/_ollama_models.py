"""What an Ollama server says of its models: ``/api/tags``, ``/api/show`` and ``/api/ps``, asked from time to time.

Of each model: what it can do, how its weights are stored, the window that it is loaded with, and whether it is loaded
at all. One that is not has to be, which takes as long as it took the last time.
"""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from ssl import create_default_context
from typing import Any

import msgspec

from backends._asking import Asking
from backends._listed_card import ListedCard
from gateway.errors import UpstreamInvalid
from gateway.facts import ModelFacts
from gateway.ports import Clock, Origin
from gateway.wire.ollama_format import CAPABILITIES
from gateway.wire.ollama_request import plain_name
from gateway.wire.upstream_json import object_at, objects, opened_object, text_at, text_of

_MOST_MODELS = 1000
_TIMEOUT_S = 10.0
_NANOSECONDS = 1_000_000_000
_WORD = re.compile(r"[a-z0-9][a-z0-9_.+-]{0,31}")
_log = logging.getLogger(__name__)

Told = Mapping[str, ModelFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A model as ``/api/tags`` and ``/api/show`` have it; ``digest`` tells when it is another one."""

    digest: str
    facts: ModelFacts


class OllamaModels:
    """The models of one server.

    Args:
        unsaid: what holds of a model that says nothing of itself.
        changed: called when something is known that was not.
        window_tokens: what translated requests ask to be loaded; zero where that is the server's choice.
    """

    def __init__(self, unsaid: ModelFacts, changed: Callable[[], None], *, window_tokens: int) -> None:
        self.told: Told = {}
        self._unsaid = unsaid
        self._changed = changed
        self._window_tokens = window_tokens
        self._known: dict[str, _Known] = {}
        self._load_s: dict[str, float] = {}
        self._asking = Asking()

    def follow(self, name: str, origin: Origin, clock: Clock, *, every_s: float) -> None:
        """Asks now, and again ``every_s``, until ``close``."""
        work = self._follow(name, origin, clock, every_s)
        self._asking.begin(work, name=f"headrace-ollama-{name}")

    async def close(self) -> None:
        """Asks no more; idempotent."""
        await self._asking.close()

    def answered(self, model: str, load_duration_ns: int) -> None:
        """A model has answered, so it is loaded; that took so long."""
        name = plain_name(model)
        if load_duration_ns > _NANOSECONDS:  # one that is loaded says how long it took to find that out
            self._load_s[name] = load_duration_ns / _NANOSECONDS
        facts = self.told.get(name)
        if facts is not None and facts.load_s:
            self._tell({**self.told, name: replace(facts, load_s=0.0)})

    async def _follow(self, name: str, origin: Origin, clock: Clock, every_s: float) -> None:
        import httpx  # noqa: PLC0415  # a second's import, where it is wanted

        verify = origin.verify if isinstance(origin.verify, bool) else create_default_context(cafile=origin.verify)
        options: Mapping[str, Any] = {"headers": dict(origin.headers), "verify": verify, "timeout": _TIMEOUT_S}
        async with httpx.AsyncClient(base_url=origin.base_url, **options) as client:
            while True:
                try:
                    await self._ask(client)
                except (httpx.HTTPError, UpstreamInvalid) as error:
                    _log.info("%s does not say which models it has: %s", name, type(error).__name__)
                await clock.sleep(every_s)

    async def _ask(self, client: Any) -> None:
        """One round. A model is described again only where its digest is another.

        Raises:
            httpx.HTTPError: the server cannot be reached, or refuses.
            UpstreamInvalid: what it says is no JSON.
        """
        listed = objects((await _json(client, "/api/tags")).get("models"))[:_MOST_MODELS]
        loaded = {
            plain_name(text_at(model, "name")): model.get("context_length")
            for model in objects((await _json(client, "/api/ps")).get("models"))
        }
        known: dict[str, _Known] = {}
        for model in listed:
            name, digest = text_at(model, "name") or text_at(model, "model"), text_at(model, "digest")
            before = self._known.get(plain_name(name))
            if not name:
                continue
            if before is None or before.digest != digest:
                shown = await _shown(client, name)
                before = _Known(digest=digest if shown else "", facts=_described(shown, self._unsaid))
            known[plain_name(name)] = before
        self._known = known
        self._tell({name: self._now(name, one.facts, loaded) for name, one in known.items()})

    def _now(self, name: str, facts: ModelFacts, loaded: Mapping[str, Any]) -> ModelFacts:
        """What is known of a model, and whether it is loaded."""
        window_tokens = self._window_tokens or loaded.get(name)
        return replace(
            facts,
            context_tokens=window_tokens if type(window_tokens) is int and window_tokens > 0 else None,
            load_s=0.0 if name in loaded else self._load_s.get(name, 0.0),
        )

    def _tell(self, told: Told) -> None:
        if told != self.told:
            self.told = told
            self._changed()


async def _json(client: Any, path: str) -> Mapping[str, Any]:
    answer = await client.get(path)
    answer.raise_for_status()
    return opened_object(answer.content)


async def _shown(client: Any, name: str) -> Mapping[str, Any]:
    """What is told of a model: nothing where the server does not, for one that is broken leaves the others whole."""
    answer = await client.post("/api/show", content=msgspec.json.encode({"model": name}))
    return opened_object(answer.content) if answer.is_success else {}


def _described(shown: Mapping[str, Any], unsaid: ModelFacts) -> ModelFacts:
    """What ``/api/show`` tells."""
    facts, said = unsaid, shown.get("capabilities")
    if isinstance(said, list) and facts.capabilities is not None:
        has = {CAPABILITIES[word] for word in map(text_of, said) if word in CAPABILITIES}
        facts = replace(facts, capabilities=facts.capabilities - set(CAPABILITIES.values()) | has)
    precision = text_at(object_at(shown, "details"), "quantization_level").lower()
    if precision == "unknown" or _WORD.fullmatch(precision) is None:
        precision = ""
    card = ListedCard(precision=precision, engine="ollama")
    return replace(facts, card=card if unsaid.card is None else unsaid.card.over(card))
