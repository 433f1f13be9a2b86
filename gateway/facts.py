"""What a backend says of itself: its models, its limits, its own measurements, how it caches, what it needs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from msgspec import Struct

from gateway.card import Card
from gateway.price import Price
from gateway.types import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCache:
    """The rules of a provider's prompt cache, where it is not simply as large as its memory.

    A prompt hits from ``min_tokens`` on, in steps of ``step_tokens``. What was not sent for ``ttl_s`` is gone; ``None``
    where it stays until the room is needed. ``at_first_token`` tells that a prompt can be hit only once the answer to
    it has begun, so that requests sent side by side do not help each other. What reading and writing it costs is in the
    model's price.
    """

    min_tokens: int = 0
    step_tokens: int = 1
    ttl_s: float | None = None
    at_first_token: bool = False

    def __post_init__(self) -> None:
        if self.min_tokens < 0 or self.step_tokens < 1 or (self.ttl_s is not None and not self.ttl_s > 0):
            raise ValueError("`min_tokens` must not be negative, `step_tokens` at least 1 and `ttl_s` more than 0")

    def hit_tokens(self, warm_tokens: int) -> int:
        """How much of ``warm_tokens`` that were sent before would be served from the cache."""
        return warm_tokens - warm_tokens % self.step_tokens if warm_tokens >= self.min_tokens else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveBounds:
    """Between which bounds the gateway finds out itself how many requests a backend takes at once.

    A first token that comes ``tolerance`` times as late as it could, for what is to be read, tells that requests wait.
    """

    min: int = 1
    max: int = 256
    tolerance: float = 2.0

    def __post_init__(self) -> None:
        if not 1 <= self.min <= self.max or not 1 < self.tolerance < math.inf:
            raise ValueError("`min` must be at least 1, `max` at least `min`, and `tolerance` more than 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive:
    """A concurrency that is found out: ``{adaptive: {min: 2, max: 64}}``."""

    adaptive: AdaptiveBounds


Concurrency = int | Adaptive | None
"""How a policy file says how many requests a backend takes at once: so many, as it turns out, or any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What is known of a model at a backend. ``None`` means unknown, which filters take as "it may fit".

    One that has to be loaded before it can begin takes ``load_s`` for that; zero where it is there, or nobody knows.

    ``carries`` names the request fields that it understands; ``None`` where the client's bytes pass through whole, but
    for those that it ``refuses``.
    ``capabilities`` are drawn from ``tools``, ``vision``, ``audio``, ``json_mode``, ``json_schema``, ``logprobs``,
    ``penalties``, ``logit_bias``, ``many`` (n > 1), ``raw_prompt``... ``card`` says how it is computed.
    """

    context_tokens: int | None = None
    capabilities: frozenset[str] | None = None
    carries: frozenset[str] | None = None
    refuses: frozenset[str] = frozenset()
    price: Price | None = None
    card: Card | None = None
    load_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendFacts:
    """What a backend says of itself, now. ``down`` is the reason why it takes nothing, or ``None``.

    Where its models are ``discovered``, the policy file names none, and it serves whichever it has.

    ``back_in_s`` is when one that is down expects to be well again, where it knows: clients are told to wait so long.
    ``prefill_tokens_per_s`` and ``seconds_per_token`` are the backend's own measurements where it has any; the fleet
    learns them from traffic otherwise. ``keeps_prefixes`` tells whether it reuses what it has read of earlier prompts,
    ``prompt_cache`` by which rules, where it has any of its own. ``in_flight`` is what it has under way, whoever sent
    it, where it tells: of an engine that several processes share each sees only its own requests. ``unlisted`` is what
    holds for a model that ``models`` does not have. Of its ``operations``, ``translates`` are those that reach it in
    the shape of OpenAI's chat: it does not speak the client's format. ``price_list`` is whose published prices hold
    where a model has none of its own, ``states_cost`` whether it says of its answers what they cost. ``free`` models
    cost nothing, by their provider's own word.
    """

    models: Mapping[str, ModelFacts]
    operations: frozenset[Operation]
    concurrency: int | None = None
    adaptive: AdaptiveBounds | None = None
    down: str | None = None
    back_in_s: float | None = None
    prefill_tokens_per_s: float | None = None
    seconds_per_token: float | None = None
    keeps_prefixes: bool = True
    price_list: str = ""
    states_cost: bool = False
    prompt_cache: PromptCache | None = None
    in_flight: int | None = None
    unlisted: ModelFacts = field(default_factory=ModelFacts)
    translates: frozenset[Operation] = frozenset()
    discovered: bool = False
    free: frozenset[str] = frozenset()

    def taking(self, concurrency: Concurrency) -> "BackendFacts":
        """The same of a backend that takes ``concurrency`` requests at once, as its policy file says."""
        if isinstance(concurrency, Adaptive):
            return replace(self, adaptive=concurrency.adaptive)
        return replace(self, concurrency=concurrency)


class Needs(Struct, frozen=True, kw_only=True):
    """What a backend needs to be started: environment variables by name, and in sentences what else is missing."""

    environment: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
