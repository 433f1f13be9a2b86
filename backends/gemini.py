"""Google's Gemini API, in its own format."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from backends._base_url import check_base_url
from backends._headers import HeaderValue, check_headers, variables
from backends._http_fields import Transport, check_fields
from backends._keys import KeyNames
from backends._listed_card import ListedCard
from backends._models import Models, listed
from backends._upstream import Ask, Upstream
from gateway.facts import BackendFacts, Concurrency, ModelFacts, Needs, PromptCache
from gateway.ports import Sink, Surroundings
from gateway.trace_context import headers_for
from gateway.types import Call, Finish, Operation
from gateway.wire.anthropic_count import push_whole
from gateway.wire.chat_to_gemini import CARRIES, Thinking, gemini_body
from gateway.wire.gemini_reader import gemini_reader
from gateway.wire.hub import TRANSLATED, answering, chat_request
from gateway.wire.own_answers import own_answer

_ADDRESS = "https://generativelanguage.googleapis.com/v1beta"
_KEY_ENV = "GEMINI_API_KEY"
_TRANSLATES = TRANSLATED | {Operation.CHAT}
_CAPABILITIES = frozenset({"audio", "file", "json_mode", "json_schema", "many", "penalties", "tools", "vision"})
# https://ai.google.dev/gemini-api/docs/caching: implicit; how long it lasts is not promised
_PROMPT_CACHE = PromptCache(min_tokens=2048, ttl_s=300, at_first_token=True)


def _key_header(key: str) -> Mapping[str, str]:
    return {"x-goog-api-key": key}


@dataclass(frozen=True, kw_only=True)
class Gemini:
    """Google's Gemini API, in its own format: ``generateContent``.

    Every client's format is translated: instructions, pictures, files, audio, tools, tool choice, structured outputs,
    efforts of thinking, several answers at once. What the model has thought comes back as reasoning where the client
    set an effort, and its signature goes back with the next turn. What has no place there (``logprobs``,
    ``logit_bias``, ``parallel_tool_calls: false``...) is refused by name, unless the route may drop it.

    For Google's OpenAI-compatible address, and for embeddings, use ``openai_compatible`` with ``preset: google``.

    Example::

        backends:
          gemini:
            use: gemini
            models:
              gemini-2.5-flash:
                context_tokens: 1048576
                price: {input_usd_per_mtok: 0.30, output_usd_per_mtok: 2.50, cached_input_usd_per_mtok: 0.075}

    Attributes:
        base_url: Where the API lives, up to and including ``/v1beta``.
        api_key_env: The environment variable that holds the key, sent as ``x-goog-api-key``; or a list of several.
        models: Names, or names with ``context_tokens``, ``capabilities``, ``price`` and ``card``.
        thinking: How ``reasoning_effort`` is told to the model: ``budget`` for Gemini 2.5, which takes a number of
            tokens, ``level`` for 3 and later.
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
            ``at_first_token``. Google's own unless given.
        card: How it computes its models, and what is known of that: ``precision``, ``engine``, ``speculation``,
            ``equivalence``, ``evidence``. A model's own ``card`` goes before it, field by field.
    """

    base_url: str = ""
    api_key_env: KeyNames = ""
    models: Models = ()
    thinking: Thinking = "budget"
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
        check_fields(self)
        check_headers(self.headers, api_key_env=self._key_env)
        if "x-goog-api-key" in {name.lower() for name in self.headers}:
            raise ValueError("`headers`: the key has a parameter of its own")
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
        if (own := own_answer(call)) is not None:
            return await push_whole(sink, own)
        body = gemini_body(chat_request(call), self.thinking)
        verb = "streamGenerateContent?alt=sse" if call.request.stream else "generateContent"
        ask = Ask(
            path=f"/models/{quote(call.model, safe='')}:{verb}",
            body=body,
            headers=headers_for(call.trace) if self.propagate_trace else {},
            streamed=call.request.stream,
        )
        return await self._upstream.send(ask, answering(call, sink, gemini_reader))

    def facts(self) -> BackendFacts:
        """See ``Backend.facts``: all that is known is what the policy file says."""
        return self._facts

    def needs(self, model_dir: Path) -> Needs:  # noqa: ARG002  # the port's signature
        """What must be there before it is started: its credentials."""
        return Needs(environment=variables(self.headers, api_key_env=self._key_env))

    async def close(self) -> None:
        """See ``Backend.close``."""
        await self._upstream.close()

    @cached_property
    def _upstream(self) -> Upstream:
        return Upstream(credential=_key_header)

    @cached_property
    def _address(self) -> str:
        return (self.base_url or _ADDRESS).rstrip("/")

    @cached_property
    def _key_env(self) -> KeyNames:
        """Google's usual variable; a server elsewhere gets no key unless it is named."""
        return self.api_key_env or ("" if self.base_url else _KEY_ENV)

    @cached_property
    def _facts(self) -> BackendFacts:
        unsaid = ModelFacts(capabilities=_CAPABILITIES, carries=frozenset(CARRIES), card=self.card)
        return BackendFacts(
            models=listed(self.models, unsaid=unsaid),
            unlisted=unsaid,
            operations=_TRANSLATES,
            translates=_TRANSLATES,
            prompt_cache=self.prompt_cache or _PROMPT_CACHE,
            price_list="" if self.base_url else "google",
        ).taking(self.concurrency)
