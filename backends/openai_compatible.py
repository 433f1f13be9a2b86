"""Any server that speaks OpenAI's API: providers, vLLM, SGLang, llama-server, or another Headrace."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from backends._base_url import check_base_url
from backends._chat_dialect import ChatDialect
from backends._headers import HeaderValue, check_headers, variables
from backends._http_fields import Transport, check_fields, check_paths, root_of
from backends._keys import KeyNames
from backends._listed_card import ListedCard
from backends._models import Models, listed
from backends._openai_calls import PATHS, openai_request
from backends._presets import Preset, preset_named, price_list_of, unsaid_of
from backends._served_load import ServedLoad
from backends._upstream import Ask, Upstream, bearer_header
from gateway.facts import BackendFacts, Concurrency, Needs, PromptCache
from gateway.ports import Sink, Surroundings
from gateway.trace_context import headers_for
from gateway.types import Call, Finish, Operation
from gateway.wire.anthropic_count import push_whole
from gateway.wire.formats import FORMATS
from gateway.wire.hub import translated
from gateway.wire.own_answers import own_answer

_NATIVE = frozenset({Operation.CHAT, Operation.COMPLETION, Operation.EMBEDDING})
"""What such a server is taken to speak where nobody says."""


@dataclass(frozen=True, kw_only=True)
class OpenAICompatible:
    """A server that speaks OpenAI's API, by preset or by address.

    The client's body goes up as it came, with ``model`` and stream options replaced, and with what a preset knows to be
    called otherwise there or to be refused: ``docs/providers.md`` has each preset's list. Of headers only ours go up,
    never the client's. The answer's bytes come down as they are. Timeouts for the first token, between tokens and for
    the whole answer are the route's; connecting is this backend's. A model that ``models`` does not list is passed on
    by the name it is asked for. A pooled connection that the server closes just as we use it counts as unreachable:
    whether to try again is the failover loop's choice alone, so nothing is sent twice behind its back.

    Example::

        backends:
          groq:
            use: openai_compatible
            preset: groq
            models:
              llama-3.3-70b-versatile:
                context_tokens: 131072
                price: {input_usd_per_mtok: 0.59, output_usd_per_mtok: 0.79}
          own:
            use: openai_compatible
            base_url: http://10.0.0.7:8000/v1
            models: [qwen3-32b]
            headers: {x-team: search, x-pool-key: {env: POOL_KEY}}

    Attributes:
        preset: A provider that we know: see ``backends/presets.yaml``. The other parameters override it.
        base_url: Where the API lives, up to and including ``/v1``.
        api_key_env: The environment variable that holds the key; sent as ``Authorization: Bearer``, to ``base_url``
            and nowhere else. Of several (``[KEY_A, KEY_B]``) one that is refused with 401, 402, 403 or 429 rests, and
            the request goes on with the next, within its attempts.
        models: Names, or names with ``context_tokens``, ``capabilities``, ``price`` and ``card``.
        operations: What it speaks itself: ``chat``, ``completion`` and ``embedding``, unless a preset knows better;
            ``messages`` and ``count_tokens`` too, if it has Anthropic's endpoints under the same address. Where it
            speaks ``chat``, other clients' requests are translated. What is passed on as it comes goes there alone
            where it stands here: ``moderation``, ``transcription``, ``audio_translation``, ``speech``, ``image``,
            ``image_edit``, ``image_variation``, ``rerank``.
        paths: Where an operation is that has another place than below ``base_url``, from the root of the same host:
            ``{rerank: /v2/rerank}``.
        headers: Further request headers; ``{env: NAME}`` for a value out of the environment.
        concurrency: How many requests it serves at once, where that is known; ``{adaptive: {min: 1, max: 256}}`` to
            have that found out from when first tokens come. More than that wait in the gateway, where routes have
            ``fair_queue``.
        connect_timeout_s: For a connection, and for one of ours to be free.
        keep_alive_s: How long an idle connection is used again: shorter than servers keep theirs, which is 5 s for
            uvicorn, so that none is used in the moment in which the server closes it.
        max_connections: At most so many at once.
        verify: Certificates to trust: ``true`` for the usual ones, a path to a file of CA certificates, ``false`` for
            none at all, which lets anybody on the way read the key.
        client_certificate: A PEM file with the certificate that this server wants of its clients.
        client_key: A PEM file with its key; empty where it stands in the same file.
        transport: ``own`` for the gateway's pooled connections, ``httpx`` for an upstream behind a proxy, ``http2`` for
            one that speaks nothing but HTTP/2, one request a connection; ``auto`` takes httpx where the environment
            (``HTTPS_PROXY``, ``NO_PROXY``...) names a proxy for this address.
        propagate_trace: Whether to send W3C trace context. Off: trace ids are not for third parties.
        max_answer_bytes: Of an answer that is not streamed.
        max_retry_after_s: The longest ``Retry-After`` that is believed.
        prompt_cache: The rules by which it caches prompts, where it has any besides being full: ``min_tokens``,
            ``step_tokens``, ``ttl_s``, ``at_first_token``. A preset knows its provider's.
        price_list: Whose published prices hold for a model without a price in ``models``: a name that ``headrace prices
            --providers`` lists. A preset knows its provider's; ``none`` for no list.
        states_cost: Whether its answers say in ``usage.cost`` what they cost in US dollars; believed before a published
            price, and never a zero.
        past_reasoning: Whether what the model thought in earlier turns (``reasoning_content``) comes back to it; true
            unless a preset knows that the provider refuses it. Presets also know where it has to stand.
        custom_tools: Whether it knows OpenAI's custom tools, whose input is free text. Where it does not, they are told
            as functions with one string. A preset knows its provider; without one they go up as they are.
        load_every_s: How often its ``/metrics`` are read for how many requests it has, so that those count that come to
            it past this gateway; 0 for never. Presets know the gauges of vLLM, SGLang and llama-server.
        card: How it computes its models, and what is known of that: ``precision``, ``engine``, ``speculation``,
            ``equivalence``, ``evidence``. A model's own ``card`` goes before it, field by field.
    """

    preset: str = ""
    base_url: str = ""
    api_key_env: KeyNames = ""
    models: Models = ()
    operations: frozenset[Operation] = frozenset()
    paths: Mapping[Operation, str] = field(default_factory=dict)
    headers: Mapping[str, HeaderValue] = field(default_factory=dict)
    concurrency: Concurrency = None
    connect_timeout_s: float = 5.0
    keep_alive_s: float = 4.0
    max_connections: int = 1000
    verify: bool | str = True
    client_certificate: str = ""
    client_key: str = ""
    transport: Transport = "auto"
    propagate_trace: bool = False
    max_answer_bytes: int = 32 * 1024 * 1024
    max_retry_after_s: float = 300.0
    prompt_cache: PromptCache | None = None
    price_list: str = ""
    states_cost: bool | None = None
    past_reasoning: bool | None = None
    custom_tools: bool | None = None
    load_every_s: float = 0.0
    card: ListedCard | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        check_headers(self.headers, api_key_env=self._key_env)
        if self._key_env and "authorization" in {name.lower() for name in self.headers}:
            raise ValueError("`headers`: `authorization` is already made from `api_key_env`")
        check_base_url(self._address)
        check_paths(self.paths)
        if self.load_every_s < 0 or (self.load_every_s and not self._gauges):
            raise ValueError("`load_every_s` must not be negative, and is for servers whose preset knows their gauges")
        listed(self.models)

    async def start(self, name: str, world: Surroundings) -> None:
        """See ``Backend.start``.

        Raises:
            ConfigurationError: an environment variable that is named here is not set.
        """
        origin = self._upstream.open(
            name,
            world,
            self,
            base_url=root_of(self._address) if self._elsewhere else self._address,
            api_key_env=self._key_env,
            client_certificate=self.client_certificate,
            client_key=self.client_key,
        )
        if self.load_every_s:
            self._load.follow(name, origin, self._gauges, world.clock, every_s=self.load_every_s)

    async def send(self, call: Call, sink: Sink) -> Finish:
        """See ``Backend.send``."""
        request = call.request
        operation = request.arrival.operation
        if call.dropped or operation not in self._verbatim:
            translates = self._facts.translates
            if operation in translates and (own := own_answer(call)) is not None:
                return await push_whole(sink, own)
            request, sink = openai_request(call, sink, translates=translates, dialect=self._dialect)
            operation = request.arrival.operation
        headers = dict(request.arrival.format_headers)
        if self.propagate_trace:
            headers |= headers_for(call.trace)
        ask = Ask(
            path=self._paths[operation],
            body=FORMATS[operation].upstream_body(request, call.model),
            headers=headers,
            streamed=request.stream,
            passes=request.units is not None,
        )
        if not self.load_every_s:
            return await self._upstream.send(ask, sink)
        with self._load.one_of_ours():
            return await self._upstream.send(ask, sink)

    def facts(self) -> BackendFacts:
        """See ``Backend.facts``: all that is known is what the policy file says, and how busy the server says it is."""
        return self._load.told(self._facts) if self.load_every_s else self._facts

    def needs(self, model_dir: Path) -> Needs:  # noqa: ARG002  # the port's signature
        """What must be there before it is started: its credentials."""
        return Needs(environment=variables(self.headers, api_key_env=self._key_env))

    async def close(self) -> None:
        """See ``Backend.close``."""
        await self._upstream.close()
        await self._load.close()

    @cached_property
    def _upstream(self) -> Upstream:
        return Upstream(credential=bearer_header)

    @cached_property
    def _load(self) -> ServedLoad:
        return ServedLoad()

    @property
    def _gauges(self) -> frozenset[str]:
        return self._preset.gauges if self._preset else frozenset()

    @cached_property
    def _preset(self) -> Preset | None:
        return preset_named(self.preset) if self.preset else None

    @cached_property
    def _address(self) -> str:
        return (self.base_url or (self._preset.base_url if self._preset else "")).rstrip("/")

    @cached_property
    def _elsewhere(self) -> Mapping[Operation, str]:
        return self.paths or (self._preset.paths if self._preset else {})

    @cached_property
    def _paths(self) -> Mapping[Operation, str]:
        """Below the address, or below the root of its host where one of them is elsewhere."""
        if not self._elsewhere:
            return PATHS
        below = self._address.removeprefix(root_of(self._address))
        return {operation: below + path for operation, path in PATHS.items()} | dict(self._elsewhere)

    @cached_property
    def _key_env(self) -> KeyNames:
        return self.api_key_env or (self._preset.api_key_env if self._preset else "")

    @cached_property
    def _verbatim(self) -> frozenset[Operation]:
        """What goes up as the client wrote it, unless a route has fields of it dropped."""
        spoken = self._facts.operations - self._facts.translates
        return spoken if self._dialect.is_openais else spoken - {Operation.CHAT}

    @cached_property
    def _dialect(self) -> ChatDialect:
        known = self._preset.dialect if self._preset else ChatDialect(custom_tools=True)
        return known.corrected(past_reasoning=self.past_reasoning, custom_tools=self.custom_tools)

    @cached_property
    def _facts(self) -> BackendFacts:
        known = self._preset
        unsaid = replace(unsaid_of(known, self._dialect), card=self.card)
        spoken = self.operations or (known.operations if known else _NATIVE)
        translates = translated(spoken)
        return BackendFacts(
            models=listed(self.models, unsaid=unsaid),
            unlisted=unsaid,
            operations=spoken | translates,
            translates=translates,
            prompt_cache=self.prompt_cache or (known.prompt_cache if known else None),
            price_list=price_list_of(self.price_list, known),
            free=known.free if known else frozenset(),
            states_cost=known is not None and known.states_cost if self.states_cost is None else self.states_cost,
        ).taking(self.concurrency)
