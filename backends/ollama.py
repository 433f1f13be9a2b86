"""Ollama, in its own format."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

from backends._base_url import check_base_url
from backends._headers import HeaderValue, check_headers, variables
from backends._http_fields import Transport, check_fields
from backends._keys import KeyNames
from backends._listed_card import ListedCard
from backends._models import ListedModel, Models, listed
from backends._ollama_models import OllamaModels
from backends._upstream import Ask, Upstream, bearer_header
from gateway.facts import BackendFacts, Concurrency, ModelFacts, Needs
from gateway.ports import Sink, Surroundings
from gateway.price import Price
from gateway.trace_context import headers_for
from gateway.types import Call, Finish, Operation
from gateway.wire.anthropic_count import push_whole
from gateway.wire.chat_to_ollama import CARRIES, Terms, chat_body, completion_body, embed_body
from gateway.wire.formats import FORMATS
from gateway.wire.hub import TRANSLATED, answering, chat_request, without_dropped
from gateway.wire.ollama_reader import ollama_reader
from gateway.wire.own_answers import own_answer
from gateway.wire.vectors import ollama_vectors_reader

_ADDRESS = "http://127.0.0.1:11434"
_PATHS = {
    Operation.OLLAMA_CHAT: "/api/chat",
    Operation.OLLAMA_GENERATE: "/api/generate",
    Operation.OLLAMA_EMBED: "/api/embed",
    Operation.OLLAMA_EMBEDDINGS: "/api/embeddings",
}
_TRANSLATES = TRANSLATED - _PATHS.keys() | {Operation.CHAT, Operation.COMPLETION, Operation.EMBEDDING}
_CAPABILITIES = frozenset(
    {"audio", "json_mode", "json_schema", "logprobs", "penalties", "raw_prompt", "suffix", "tools", "vision"}
)
_LOAD = re.compile(rb'"load_duration"\s*:\s*(\d{1,18})')
_TAIL_BYTES = 4096
_NO_PRICE = Price(input_usd_per_mtok=Decimal(0), output_usd_per_mtok=Decimal(0))


@dataclass(frozen=True, kw_only=True)
class Ollama:
    """Ollama, in its own format: ``/api/chat``, ``/api/generate``, ``/api/embed``.

    The bodies of Ollama's own clients go up as they came, with ``model`` replaced. Chats of all other formats are
    translated to ``/api/chat`` (tools, pictures, thinking, forms, log-probabilities), completions to ``/api/generate``
    without a template, embeddings to ``/api/embed``. What has no place there (``logit_bias``, ``n``, a tool that must
    be called...) is refused by name, unless the route may drop it. A prompt that is too long for the window is refused
    there, and never cut, but for those of Ollama's own clients.

    Every ``refresh_s`` the server is asked which models it has, what they can do, how their weights are stored, and
    which are loaded with which window: that stands in ``/v1/models``, in ``explain`` and in the filters. One that is
    not loaded has to be first, which counts as waiting for as long as it took the last time.

    Use ``openai_compatible`` with ``preset: ollama`` for its OpenAI-compatible address.

    Example::

        backends:
          ollama:
            use: ollama
            base_url: http://10.0.0.7:11434
            num_ctx: 16384

    Attributes:
        base_url: Where the server is, without ``/api``; this machine's usual port unless given.
        api_key_env: The environment variable that holds the key, sent as ``Authorization: Bearer``; or a list of
            several. A server of one's own has none.
        models: Names, or names with ``context_tokens``, ``capabilities``, ``price`` and ``card``. Without them, all
            that the server has.
        num_ctx: The window that translated requests ask to be loaded, in tokens; 0 leaves that to the server. Ollama
            loads a model anew where it is asked for another window than before.
        keep_alive: How long a model stays loaded after a translated request, as ``10m``; empty leaves that to the
            server.
        refresh_s: How often the server is asked for its models; 0 for never.
        headers: Further request headers; ``{env: NAME}`` for a value out of the environment.
        concurrency: How many requests it serves at once, where that is known, or ``{adaptive: {}}``.
        connect_timeout_s: For a connection, and for one of ours to be free.
        keep_alive_s: How long an idle connection is used again.
        max_connections: At most so many at once.
        verify: Certificates to trust: ``true`` for the usual ones, a path to a file of CA certificates, ``false`` for
            none at all.
        transport: ``own``, ``httpx``, ``http2`` or ``auto``, as for ``openai_compatible``.
        propagate_trace: Whether to send W3C trace context.
        max_answer_bytes: Of an answer that is not streamed.
        max_retry_after_s: The longest ``Retry-After`` that is believed.
        card: How it computes its models, and what is known of that: ``precision``, ``engine``, ``speculation``,
            ``equivalence``, ``evidence``. It goes before what the server says, and a model's own ``card`` before it.
    """

    base_url: str = ""
    api_key_env: KeyNames = ""
    models: Models = ()
    num_ctx: int = 0
    keep_alive: str = ""
    refresh_s: float = 30.0
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
    card: ListedCard | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        check_headers(self.headers, api_key_env=self.api_key_env)
        if self.num_ctx < 0 or self.refresh_s < 0:
            raise ValueError("`num_ctx` and `refresh_s` must not be negative")
        check_base_url(self._address)
        listed(self.models)

    async def start(self, name: str, world: Surroundings) -> None:
        """See ``Backend.start``.

        Raises:
            ConfigurationError: an environment variable that is named here is not set.
        """
        origin = self._upstream.open(name, world, self, base_url=self._address, api_key_env=self.api_key_env)
        if self.refresh_s:
            self._found.follow(name, origin, world.clock, every_s=self.refresh_s)

    async def send(self, call: Call, sink: Sink) -> Finish:
        """See ``Backend.send``."""
        operation = call.request.arrival.operation
        if operation not in _PATHS and (own := own_answer(call)) is not None:
            return await push_whole(sink, own)
        path, body, sink = self._translated(call, sink)
        headers = {"accept": "application/x-ndjson" if call.request.stream else "application/json"}
        if self.propagate_trace:
            headers |= headers_for(call.trace)
        ask = Ask(path=path, body=body, headers=headers, streamed=call.request.stream)
        watched = _LoadWatch(sink)
        finish = await self._upstream.send(ask, watched)
        self._found.answered(call.model, watched.load_duration_ns)
        return finish

    def facts(self) -> BackendFacts:
        """See ``Backend.facts``: what the policy file says, and what the server said last."""
        facts: BackendFacts | None = self._told.get("facts")
        if facts is None:  # the same object as long as nothing changes: the fleet builds on it
            facts = self._told["facts"] = self._new_facts()
        return facts

    def needs(self, model_dir: Path) -> Needs:  # noqa: ARG002  # the port's signature
        """What must be there before it is started: its credentials."""
        return Needs(environment=variables(self.headers, api_key_env=self.api_key_env))

    async def close(self) -> None:
        """See ``Backend.close``."""
        await self._found.close()
        await self._upstream.close()

    def _translated(self, call: Call, sink: Sink) -> tuple[str, bytes, Sink]:
        """Where the call goes, with which body, and who takes the answer."""
        operation, terms = call.request.arrival.operation, self._terms
        if operation in _PATHS:
            return _PATHS[operation], FORMATS[operation].upstream_body(without_dropped(call), call.model), sink
        request = chat_request(call)
        if operation is Operation.EMBEDDING:
            body = embed_body(request, call.model, terms)
            return "/api/embed", body, answering(call, sink, ollama_vectors_reader)
        if operation is Operation.COMPLETION:
            return "/api/generate", completion_body(request, call.model, terms), answering(call, sink, ollama_reader)
        return "/api/chat", chat_body(request, call.model, terms), answering(call, sink, ollama_reader)

    def _new_facts(self) -> BackendFacts:
        found = self._found.told
        given: Mapping[str, ListedModel | None] = (
            self.models if isinstance(self.models, Mapping) else dict.fromkeys(self.models or found)
        )
        models: dict[str, ModelFacts] = {}
        for name, facts in given.items():
            models |= listed({name: facts}, unsaid=found.get(name.removesuffix(":latest"), self._unsaid))
        return BackendFacts(
            models=models,
            unlisted=self._unsaid,
            discovered=not self.models,
            operations=_TRANSLATES | _PATHS.keys(),
            translates=_TRANSLATES,
        ).taking(self.concurrency)

    @cached_property
    def _told(self) -> dict[str, Any]:
        return {}

    @cached_property
    def _found(self) -> OllamaModels:
        return OllamaModels(self._unsaid, self._told.clear, window_tokens=self.num_ctx)

    @cached_property
    def _upstream(self) -> Upstream:
        return Upstream(credential=bearer_header)

    @cached_property
    def _terms(self) -> Terms:
        return Terms(num_ctx=self.num_ctx, keep_alive=self.keep_alive)

    @cached_property
    def _address(self) -> str:
        return (self.base_url or _ADDRESS).rstrip("/")

    @cached_property
    def _unsaid(self) -> ModelFacts:
        price = None if self.api_key_env else _NO_PRICE  # a server of one's own is paid for
        return ModelFacts(capabilities=_CAPABILITIES, carries=frozenset(CARRIES), price=price, card=self.card)


class _LoadWatch:
    """A sink in front of another, which sees in the end of an answer how long the model was loaded before it."""

    __slots__ = ("_sink", "_tail", "load_duration_ns")

    def __init__(self, sink: Sink) -> None:
        self.load_duration_ns = 0
        self._sink = sink
        self._tail = b""

    def begin(self, *, streamed: bool) -> None:
        """See ``Sink.begin``."""
        self._sink.begin(streamed=streamed)

    async def push(self, data: bytes) -> None:
        """See ``Sink.push``."""
        self._tail = data[-_TAIL_BYTES:] if len(data) >= _TAIL_BYTES else (self._tail + data)[-_TAIL_BYTES:]
        await self._sink.push(data)

    async def end(self) -> Finish:
        """See ``Sink.end``."""
        if (found := _LOAD.search(self._tail)) is not None:
            self.load_duration_ns = int(found[1])
        return await self._sink.end()
