"""Anthropic's own API, or a server that speaks it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from backends._anthropic_models import models_of
from backends._base_url import check_base_url
from backends._headers import HeaderValue, check_headers, variables
from backends._http_fields import Transport, check_fields
from backends._keys import KeyNames
from backends._listed_card import ListedCard
from backends._models import Models, listed
from backends._presets import Preset, preset_named
from backends._upstream import Ask, Upstream
from gateway.facts import BackendFacts, Concurrency, ModelFacts, Needs, PromptCache
from gateway.ports import Sink, Surroundings
from gateway.trace_context import headers_for
from gateway.types import Call, Finish, Operation
from gateway.wire.anthropic_count import push_whole
from gateway.wire.anthropic_reader import anthropic_reader
from gateway.wire.chat_to_anthropic import CARRIES, Terms, anthropic_body
from gateway.wire.formats import FORMATS
from gateway.wire.hub import TRANSLATED, answering, chat_request, without_dropped
from gateway.wire.own_answers import loaded

_PATHS: Mapping[Operation, str] = {
    Operation.MESSAGES: "/messages",
    Operation.COUNT_TOKENS: "/messages/count_tokens",
}
_TRANSLATES = TRANSLATED - _PATHS.keys() | {Operation.CHAT}
_CAPABILITIES = frozenset({"file", "json_schema", "tools", "vision"})
_VERSION = "2023-06-01"
_BETA = "anthropic-beta"


def _preset() -> Preset:
    return preset_named("anthropic", use="anthropic")


def _key_header(key: str) -> Mapping[str, str]:
    return {"x-api-key": key}


@dataclass(frozen=True, kw_only=True)
class Anthropic:
    """Anthropic's Messages API: Claude, or a server that speaks the same.

    A body in Anthropic's format goes up as it came, with ``model`` replaced, and the answer's bytes come down as they
    are. Of the client's headers ``anthropic-version`` and ``anthropic-beta`` go up with it. OpenAI's chats and
    Responses are translated: instructions, images, tools, tool choice, structured outputs, efforts of thinking, and
    signed thoughts both ways; ``docs/translation.md`` has every field. What has no place there (``seed``, ``n``,
    ``logprobs``...) is refused by name, unless the route may drop it.

    Example::

        backends:
          claude:
            use: anthropic
            models:
              claude-sonnet-4-5:
                context_tokens: 200000
                price: {input_usd_per_mtok: 3, output_usd_per_mtok: 15}

    Attributes:
        base_url: Where the API lives, up to and including ``/v1``.
        api_key_env: The environment variable that holds the key, sent as ``x-api-key``; or a list of several.
        models: Names, or names with ``context_tokens``, ``capabilities``, ``price`` and ``card``. What reading
            from the prompt cache and writing to it costs is 0.1 and 1.25 times the input, unless the price says it.
        version: ``anthropic-version`` where the client sends none.
        betas: Further ``anthropic-beta`` values, beside those of the client.
        max_tokens: For chats whose client sets no limit: Anthropic wants one.
        thinking: How a chat's ``reasoning_effort`` is told to the model: ``budget`` for models that take a number of
            tokens, ``effort`` for those that decide for themselves (``adaptive``).
        headers: Further request headers; ``{env: NAME}`` for a value out of the environment.
        concurrency: How many requests it serves at once, where that is known, or ``{adaptive: {}}``.
        connect_timeout_s: For a connection, and for one of ours to be free.
        keep_alive_s: How long an idle connection is used again.
        max_connections: At most so many at once.
        verify: Certificates to trust: ``true`` for the usual ones, a path to a file of CA certificates, ``false`` for
            none at all.
        transport: ``own``, ``httpx``, ``http2`` or ``auto``, as for ``openai_compatible``.
        propagate_trace: Whether to send W3C trace context. Off: trace ids are not for third parties.
        max_answer_bytes: Of an answer that is not streamed.
        max_retry_after_s: The longest ``Retry-After`` that is believed.
        prompt_cache: The rules by which it caches prompts: ``min_tokens``, ``step_tokens``, ``ttl_s``,
            ``at_first_token``. Anthropic's own unless given.
        card: How it computes its models, and what is known of that: ``precision``, ``engine``, ``speculation``,
            ``equivalence``, ``evidence``. A model's own ``card`` goes before it, field by field.
    """

    base_url: str = ""
    api_key_env: KeyNames = ""
    models: Models = ()
    version: str = _VERSION
    betas: tuple[str, ...] = ()
    max_tokens: int = 8192
    thinking: Literal["budget", "effort"] = "budget"
    headers: Mapping[str, HeaderValue] = field(default_factory=dict)
    concurrency: Concurrency = None
    connect_timeout_s: float = 5.0
    keep_alive_s: float = 4.0
    max_connections: int = 1000
    verify: bool | str = True
    transport: Transport = "auto"
    propagate_trace: bool = False
    max_answer_bytes: int = 32 * 1024 * 1024
    max_retry_after_s: float = 300.0
    prompt_cache: PromptCache | None = None
    card: ListedCard | None = None

    def __post_init__(self) -> None:
        check_fields(self, "max_tokens")
        check_headers(self.headers, api_key_env=self._key_env)
        if {"x-api-key", "anthropic-version", _BETA} & {name.lower() for name in self.headers}:
            raise ValueError("`headers`: the key, the version and the betas have parameters of their own")
        check_base_url(self._address)
        listed(self.models)

    async def start(self, name: str, world: Surroundings) -> None:
        """See ``Backend.start``.

        Raises:
            ConfigurationError: an environment variable that is named here is not set.
        """
        self._upstream.open(name, world, self, base_url=self._address, api_key_env=self._key_env)

    async def send(self, call: Call, sink: Sink) -> Finish:
        """See ``Backend.send``."""
        operation = call.request.arrival.operation
        if operation not in _PATHS and (own := loaded(call)) is not None:
            return await push_whole(sink, own)
        headers = self._headers(dict(call.request.arrival.format_headers))
        if self.propagate_trace:
            headers |= headers_for(call.trace)
        if operation in _PATHS:
            body = FORMATS[operation].upstream_body(without_dropped(call), call.model)
        else:
            body = anthropic_body(chat_request(call), call.model, self._terms)
            sink = answering(call, sink, anthropic_reader)
        path = _PATHS.get(operation, _PATHS[Operation.MESSAGES])
        return await self._upstream.send(Ask(path=path, body=body, headers=headers, streamed=call.request.stream), sink)

    def facts(self) -> BackendFacts:
        """See ``Backend.facts``: all that is known is what the policy file says."""
        return self._facts

    def needs(self, model_dir: Path) -> Needs:  # noqa: ARG002  # the port's signature
        """What must be there before it is started: its credentials."""
        return Needs(environment=variables(self.headers, api_key_env=self._key_env))

    async def close(self) -> None:
        """See ``Backend.close``."""
        await self._upstream.close()

    def _headers(self, given: dict[str, str]) -> dict[str, str]:
        """The client's version, and its betas beside ours."""
        betas = dict.fromkeys((*self.betas, *filter(None, map(str.strip, given.get(_BETA, "").split(",")))))
        headers = {"anthropic-version": given.get("anthropic-version", self.version)}
        return {**headers, _BETA: ",".join(betas)} if betas else headers

    @cached_property
    def _upstream(self) -> Upstream:
        return Upstream(credential=_key_header)

    @cached_property
    def _terms(self) -> Terms:
        return Terms(max_tokens=self.max_tokens, thinking=self.thinking)

    @cached_property
    def _address(self) -> str:
        return (self.base_url or _preset().base_url).rstrip("/")

    @cached_property
    def _key_env(self) -> KeyNames:
        """Anthropic's usual variable; a server elsewhere gets no key unless it is named."""
        return self.api_key_env or ("" if self.base_url else _preset().api_key_env)

    @cached_property
    def _facts(self) -> BackendFacts:
        unsaid = ModelFacts(capabilities=_CAPABILITIES, carries=CARRIES, card=self.card)
        return BackendFacts(
            models=models_of(self.models, unsaid),
            unlisted=unsaid,
            operations=_TRANSLATES | _PATHS.keys(),
            translates=_TRANSLATES,
            prompt_cache=self.prompt_cache or _preset().prompt_cache,
            price_list="" if self.base_url else _preset().price_list,
        ).taking(self.concurrency)
