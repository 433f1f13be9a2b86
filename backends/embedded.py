"""A real model on this machine, in a process of its own beside the gateway."""

import importlib.util
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from backends._engine_account import Account
from backends._engine_answer import answer_to, pour, translated
from backends._engine_card import card_of
from backends._engine_condition import condition
from backends._engine_embeddings import embed_of, embeddings_body
from backends._engine_life import EngineLife, Terms
from backends._engine_model import check_template, model_needs
from backends._engine_price import engine_price, usd_for
from backends._engine_request import CAPABILITIES, CARRIES, generations
from backends._http import UpstreamNotFound
from backends._listed_price import ListedPrice
from embedded_engine.client import EngineDied, ProtocolError, RequestFailed
from embedded_engine.dialogue import Dialogue
from embedded_engine.known_models import DEFAULT_MODEL, KNOWN_MODELS
from embedded_engine.messages import Ready
from embedded_engine.models import hub_id
from embedded_engine.settings import EngineSettings
from gateway.errors import ConfigurationError, UpstreamError, UpstreamUnreachable
from gateway.facts import BackendFacts, ModelFacts, Needs, PromptCache
from gateway.ports import Sink, Surroundings
from gateway.price import Price
from gateway.types import Call, Finish, Operation
from gateway.wire.anthropic_count import count_body, push_whole
from gateway.wire.hub import EMBEDDED, TRANSLATED, as_chat, chat_request
from gateway.wire.own_answers import loaded

_OF_TEXT = frozenset({Operation.COMPLETION, Operation.EMBEDDING}) | EMBEDDED
_OF_CHATS = frozenset({Operation.CHAT}) | TRANSLATED
_TRANSLATES = TRANSLATED | EMBEDDED
"""What needs a chat template."""

_LEAST_STALLED_AFTER_S = 1.0
_PROMPT_CACHE = PromptCache(at_first_token=True)
"""Prompts are remembered as soon as they are read, to the token."""


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """A GGUF model, decoded on this machine's own processor in a process beside the gateway.

    The process is watched, and ended when it stands still. When it dies, the requests in it fail (and may go to another
    backend), it is started again, sooner after a long life than after a short one, and until it is ready the backend is
    down; clients are told to come back when it should be, by the time that the last start took. The workers of one
    gateway share it; ``slots`` and ``queue_limit`` are those of all of them together. It needs the extra
    ``headrace[engine]`` and a model: ``headrace model pull``. A model that is pulled later is found without a restart.

    It understands messages of text, tools and their results, prompts as text or tokens, and the sampling fields of
    OpenAI's API and vLLM's; ``docs/engine.md`` lists them. It refuses by name what it does not. Fields about reasoning
    are for models whose chat template thinks; others refuse them, too, unless the route may drop them
    (``filter: [{use: capable, may_drop: [reasoning_effort]}]``).

    Example::

        backends:
          local:
            use: embedded
            model: smollm2-135m-instruct:q8_0
            slots: 4

    Attributes:
        model: A known name, ``hf:org/repo/file.gguf``, ``org/repo:quantisation``, or the path of a GGUF file.
        context_tokens: Prompt and answer of one choice; 0 for what the model was trained for, at most 4096.
        slots: How many choices run at once.
        queue_limit: How many requests wait for a slot; one more is turned away.
        threads: 0 for the physical cores but one, which is left to the gateway.
        kernels: ``ik_llama``, ``llama_cpp``, or empty for the first that is installed.
        chat_template: A file with a Jinja template in place of the model file's own.
        speculation: Whether tokens are drafted and verified together; answers are the same, and mostly come faster.
        draft_model: A small model of the same vocabulary that drafts, named as ``model`` is; pays for large ones only.
        prefix_cache_bytes: Memory in which prompts are remembered, so that those that begin alike cost less.
        price: Zero unless given: the machine is paid for already. (No price at all would mean that nobody knows.)
        usd_per_hour: What the machine costs, instead of ``price``: an answer then costs its part of the time in which
            the engine was busy, divided at every moment among the requests in it. Expected is what a single request
            would cost at the speeds measured at load, ``usd_per_hour / 3600 / tokens_per_s`` a token; so much costs
            what was given up before its end.
        restart_min_s: The wait after the engine's first early death; it doubles with each further one.
        restart_max_s: And grows no further than this.
        healthy_s: After a life of so long a death is the first again.
        stalled_after_s: An engine that makes no step for so long, and when it has nothing to do no sign of life, is
            ended and started again; at least 1. One step takes a batch of 62 tokens through the model.
        start_timeout_s: So is one that is not ready after so long. A large model from a slow disk may need more.
    """

    model: str = DEFAULT_MODEL
    context_tokens: int = 0
    slots: int = 8
    queue_limit: int = 64
    threads: int = 0
    kernels: Literal["", "ik_llama", "llama_cpp"] = ""
    chat_template: str = ""
    speculation: bool = True
    draft_model: str = ""
    prefix_cache_bytes: int = 256 * 1024 * 1024
    price: ListedPrice | None = None
    usd_per_hour: Decimal | None = None
    restart_min_s: float = 0.5
    restart_max_s: float = 30.0
    healthy_s: float = 60.0
    stalled_after_s: float = 60.0
    start_timeout_s: float = 300.0
    _life: EngineLife = field(init=False, repr=False, compare=False, default_factory=EngineLife)
    _told: dict[str, Any] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._settings()
        if self.price is not None and self.usd_per_hour is not None:
            raise ValueError("`usd_per_hour` and `price` exclude each other")
        if self.usd_per_hour is not None and self.usd_per_hour < 0:
            raise ValueError("`usd_per_hour` must not be negative")
        for name in ("restart_min_s", "restart_max_s", "healthy_s", "start_timeout_s"):
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` must be more than zero")
        if self.stalled_after_s < _LEAST_STALLED_AFTER_S:
            raise ValueError(f"`stalled_after_s` must be at least {_LEAST_STALLED_AFTER_S:g}")

    def needs(self, model_dir: Path) -> Needs:
        """What must be there before it is started: its models, and its chat template if it has one of its own."""
        if self.chat_template:
            check_template(self.chat_template)
        drafting = model_needs(self.draft_model, model_dir, where="draft_model").missing if self.draft_model else ()
        return Needs(missing=(*model_needs(self.model, model_dir).missing, *drafting))

    async def start(self, name: str, world: Surroundings) -> None:
        """See ``Backend.start``.

        Raises:
            ConfigurationError: the engine's extra is not installed.
        """
        missing = [module for module in ("numpy", "jinja2") if importlib.util.find_spec(module) is None]
        if missing:
            raise ConfigurationError(
                f"the embedded engine needs {' and '.join(missing)}", hint="pip install 'headrace[engine]'"
            )
        terms = Terms(
            start_timeout_s=self.start_timeout_s,
            stalled_after_s=self.stalled_after_s,
            healthy_s=self.healthy_s,
            restart_min_s=self.restart_min_s,
            restart_max_s=self.restart_max_s,
        )
        self._life.start(name, world, self.model, self._settings(), terms)

    async def send(self, call: Call, sink: Sink) -> Finish:
        """See ``Backend.send``. Cancelling frees the engine's slot within one of its steps."""
        try:
            return await self._metered(call, sink)
        except (RequestFailed, EngineDied, ProtocolError) as error:
            ours = translated(error)
            ours.backend = self._life.name
            raise ours from error
        except UpstreamError as error:
            error.backend = error.backend or self._life.name
            raise

    def facts(self) -> BackendFacts:
        """See ``Backend.facts``: the model and its speeds are the engine's own measurements, once it is ready."""
        life = self._life
        known = (life.ready, life.down, life.back_in_s, life.in_flight)
        if self._told.get("known") != known:  # the same object as long as nothing changes: the fleet builds on it
            self._told.update(known=known, facts=self._new_facts())
        facts: BackendFacts = self._told["facts"]
        return facts

    def _new_facts(self) -> BackendFacts:
        life, ready = self._life, self._life.ready
        model = ModelFacts(
            context_tokens=ready.context_tokens if ready else self.context_tokens or None,
            capabilities=CAPABILITIES,
            carries=CARRIES[ready is None or ready.thinks],
            price=self._price(ready),
            card=card_of(ready) if ready else None,
        )
        chats = ready is None or ready.has_chat_template
        return BackendFacts(
            models={self._served: model},
            operations=_OF_TEXT | _OF_CHATS if chats else _OF_TEXT,
            translates=_TRANSLATES,
            concurrency=self.slots,
            down=life.down,
            back_in_s=life.back_in_s,
            prefill_tokens_per_s=ready.self_test.prefill_tokens_per_s if ready else None,
            seconds_per_token=ready.self_test.decode_s_per_token if ready else None,
            keeps_prefixes=ready is not None and ready.keeps_prefixes,
            prompt_cache=_PROMPT_CACHE,
            in_flight=life.in_flight,
            states_cost=self.usd_per_hour is not None,
        )

    def condition(self) -> Mapping[str, Any]:
        """What ``GET /v1/engine`` tells."""
        return condition(self._life)

    async def close(self) -> None:
        """See ``Backend.close``: ends the engine's process."""
        await self._life.close()

    @property
    def _served(self) -> str:
        """The name that clients see: of a path only its last part, for the rest is nobody's business."""
        is_path = self.model not in KNOWN_MODELS and hub_id(self.model) is None
        return Path(self.model).name if is_path else self.model

    def _settings(self) -> EngineSettings:
        return EngineSettings(
            model_path="",
            model_name=self._served,
            context_tokens=self.context_tokens,
            slots=self.slots,
            queue_limit=self.queue_limit,
            threads=self.threads,
            kernels=self.kernels,
            chat_template=self.chat_template,
            speculation=self.speculation,
            draft_model_path=self.draft_model,
            prefix_cache_bytes=self.prefix_cache_bytes,
        )

    def _price(self, ready: Ready | None) -> Price | None:
        if self.usd_per_hour is None:
            return self.price or Price(input_usd_per_mtok=Decimal(0), output_usd_per_mtok=Decimal(0))
        return engine_price(self.usd_per_hour, ready) if ready is not None else None

    async def _metered(self, call: Call, sink: Sink) -> Finish:
        busy = self._life.busy
        if self.usd_per_hour is None or busy is None:
            return await self._send(call, sink)
        entered, busy_s = busy.enter(), 0.0
        try:
            finish = await self._send(call, sink)
        finally:
            busy_s = busy.leave(entered)
        if finish.usage is None:
            return finish
        usd = usd_for(self.usd_per_hour, busy_s)
        return replace(finish, usage=replace(finish.usage, stated_usd=usd))

    async def _send(self, call: Call, sink: Sink) -> Finish:
        life = self._life
        if call.model != self._served:
            raise UpstreamNotFound(f"the engine serves {self._served}, not {call.model}")
        engine, down, n = life.engine, life.down, call.request.n
        if engine is None or life.world is None or down is not None:
            raise UpstreamUnreachable(down or "the engine is not started")
        if call.request.arrival.operation is Operation.COUNT_TOKENS:
            return await push_whole(sink, count_body(await _counted(engine, call)))
        if (own := loaded(call)) is not None:
            return await push_whole(sink, own)
        call, sink = as_chat(call, sink)
        if call.request.arrival.operation is Operation.EMBEDDING:
            return await _embed(engine, call, sink)
        requests = generations(call)
        for request in requests[1:]:
            await engine.check(request)  # what cannot be served must be known before the first prompt is answered
        answer, account = answer_to(call, life.world.clock.unix_s()), Account(unfinished_choices=n * len(requests))
        for number, request in enumerate(requests):
            choices = range(number * n, (number + 1) * n)
            async with aclosing(engine.generate(request)) as events:
                await pour(events, answer, sink, choices, account)
        await sink.push(answer.end(account))
        for draft in account.drafts:
            life.world.count_drafts(life.name, draft.source, draft.drafted, draft.accepted)
        return await sink.end()


async def _counted(engine: Dialogue, call: Call) -> int:
    """How many tokens the prompt has, by the model's own vocabulary and template."""
    request = replace(chat_request(call), max_tokens=1)
    (generate,) = generations(replace(call, request=request))
    return await engine.check(generate)


async def _embed(engine: Dialogue, call: Call, sink: Sink) -> Finish:
    vectors = await engine.embed(embed_of(call))
    body = embeddings_body(call, vectors)
    sink.begin(streamed=False)
    await sink.push(body)
    return await sink.end()
