"""Any server that speaks OpenAI's API: providers, vLLM, SGLang, llama-server, or another Headrace."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from backends._base_url import check_base_url
from backends._headers import HeaderValue, bearer, check_headers, resolve_headers, resolve_keys, variables
from backends._http import Refusal, from_refusal, hide_secrets, refusal_body
from backends._keys import KeyNames, KeyRing
from backends._models import Models, listed
from backends._presets import Preset, preset_named
from backends._retry_after import read_retry_after
from gateway.errors import UpstreamError, UpstreamInvalid, UpstreamTruncated, UpstreamUnreachable
from gateway.facts import Adaptive, BackendFacts, Concurrency, ModelFacts, Needs, PromptCache
from gateway.ports import Clock, Connections, Origin, Sink, Surroundings, UpstreamAnswer
from gateway.trace_context import headers_for
from gateway.types import Call, Finish, Operation
from gateway.wire.formats import FORMATS

_SUCCESS = range(200, 300)
_PATHS: Mapping[Operation, str] = {
    Operation.CHAT: "/chat/completions",
    Operation.COMPLETION: "/completions",
    Operation.EMBEDDING: "/embeddings",
}


@dataclass(slots=True)
class _Open:
    """What ``start`` opens and ``close`` gives back."""

    name: str = ""
    connections: Connections | None = None
    clock: Clock | None = None
    secrets: frozenset[str] = frozenset()
    keys: KeyRing | None = None


@dataclass(frozen=True, kw_only=True)
class OpenAICompatible:
    """A server that speaks OpenAI's API, by preset or by address.

    The client's body goes up as it came, with ``model`` and stream options replaced; of headers only ours go up, never
    the client's. The answer's bytes come down as they are. Timeouts for the first token, between tokens and for the
    whole answer are the route's; connecting is this backend's. A model that ``models`` does not list is passed on
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
        models: Names, or names with ``context_tokens``, ``capabilities`` and ``price``.
        operations: ``chat``, ``completion``, ``embedding``; all, unless a preset knows better.
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
    """

    preset: str = ""
    base_url: str = ""
    api_key_env: KeyNames = ""
    models: Models = ()
    operations: frozenset[Operation] = frozenset()
    headers: Mapping[str, HeaderValue] = field(default_factory=dict)
    concurrency: Concurrency = None
    connect_timeout_s: float = 5.0
    keep_alive_s: float = 4.0
    max_connections: int = 1000
    verify: bool | str = True
    client_certificate: str = ""
    client_key: str = ""
    transport: Literal["auto", "own", "httpx", "http2"] = "auto"
    propagate_trace: bool = False
    max_answer_bytes: int = 32 * 1024 * 1024
    max_retry_after_s: float = 300.0
    prompt_cache: PromptCache | None = None
    _open: _Open = field(init=False, repr=False, compare=False, default_factory=_Open)

    def __post_init__(self) -> None:
        for name in ("connect_timeout_s", "keep_alive_s", "max_connections", "max_answer_bytes", "max_retry_after_s"):
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` must be more than zero")
        if isinstance(self.concurrency, int) and self.concurrency < 1:
            raise ValueError("`concurrency` must be at least 1")
        check_headers(self.headers, api_key_env=self._key_env)
        if self._key_env and "authorization" in {name.lower() for name in self.headers}:
            raise ValueError("`headers`: `authorization` is already made from `api_key_env`")
        check_base_url(self._address)
        listed(self.models)

    async def start(self, name: str, world: Surroundings) -> None:
        """See ``Backend.start``.

        Raises:
            ConfigurationError: an environment variable that is named here is not set.
        """
        headers, secrets = resolve_headers(self.headers, api_key_env=self._key_env, secret=world.secret)
        self._open.name, self._open.clock, self._open.secrets = name, world.clock, secrets
        keys = resolve_keys(self._key_env, secret=world.secret)
        self._open.keys = KeyRing(name, keys, clock=world.clock) if len(keys) > 1 else None
        origin = Origin(
            base_url=self._address,
            headers=headers,
            connect_timeout_s=self.connect_timeout_s,
            keep_alive_s=self.keep_alive_s,
            max_connections=self.max_connections,
            verify=self.verify,
            client_certificate=self.client_certificate,
            client_key=self.client_key,
        )
        behind_proxy = self.transport == "auto" and world.behind_proxy(self._address)
        if behind_proxy or self.transport in {"httpx", "http2"}:
            self._open.connections = _httpx(origin, http2=self.transport == "http2")
        else:
            self._open.connections = world.connect(origin)

    async def send(self, call: Call, sink: Sink) -> Finish:
        """See ``Backend.send``."""
        ring = self._open.keys
        try:
            if ring is None:
                return await self._send(call, sink, {})
            with ring.key() as key:
                return await self._send(call, sink, {"authorization": bearer(key.secret)})
        except UpstreamError as error:
            error.backend = error.backend or self._open.name
            hide_secrets(error, self._open.secrets)
            raise

    def facts(self) -> BackendFacts:
        """See ``Backend.facts``: all that is known is what the policy file says."""
        return self._facts

    def needs(self, model_dir: Path) -> Needs:  # noqa: ARG002  # the port's signature
        """What must be there before it is started: its credentials."""
        return Needs(environment=variables(self.headers, api_key_env=self._key_env))

    async def close(self) -> None:
        """See ``Backend.close``."""
        if self._open.connections is not None:
            await self._open.connections.close()
            self._open.connections = None

    async def _send(self, call: Call, sink: Sink, account: Mapping[str, str]) -> Finish:
        connections, operation = self._open.connections, call.request.arrival.operation
        if connections is None:
            raise UpstreamUnreachable("the backend is closed")
        asked_stream = call.request.stream
        body = FORMATS[operation].upstream_body(call.request, call.model)
        headers = {"accept": "text/event-stream" if asked_stream else "application/json", **account}
        if self.propagate_trace:
            headers |= headers_for(call.trace)
        async with connections.post(_PATHS[operation], body, headers=headers) as answer:
            if answer.status not in _SUCCESS:
                raise await self._refusal(answer)
            streamed = _is_stream(answer, asked=asked_stream)
            sink.begin(streamed=streamed)
            try:
                await self._pour(answer, sink, limit_bytes=None if streamed else self.max_answer_bytes)
            except UpstreamUnreachable as error:
                if not streamed:
                    raise UpstreamTruncated("the connection broke in the middle of the answer") from error
                # Of a stream the sink knows whether its end had come before the break; where not, it raises.
        return await sink.end()

    async def _pour(self, answer: UpstreamAnswer, sink: Sink, *, limit_bytes: int | None) -> None:
        taken_bytes = 0
        while piece := await answer.piece():
            taken_bytes += len(piece)
            if limit_bytes is not None and taken_bytes > limit_bytes:
                raise UpstreamInvalid(f"the answer is longer than {limit_bytes} bytes")
            await sink.push(piece)

    async def _refusal(self, answer: UpstreamAnswer) -> UpstreamError:
        clock = self._open.clock
        refusal = Refusal(
            status=answer.status,
            body=await refusal_body(answer),
            retry_after_s=read_retry_after(
                [value for name, value in answer.headers if name == "retry-after"],
                now_unix_s=clock.unix_s() if clock else 0.0,
                cap_s=self.max_retry_after_s,
            ),
        )
        return from_refusal(refusal, self._open.secrets)

    @cached_property
    def _preset(self) -> Preset | None:
        return preset_named(self.preset) if self.preset else None

    @cached_property
    def _address(self) -> str:
        return (self.base_url or (self._preset.base_url if self._preset else "")).rstrip("/")

    @cached_property
    def _key_env(self) -> KeyNames:
        return self.api_key_env or (self._preset.api_key_env if self._preset else "")

    @cached_property
    def _facts(self) -> BackendFacts:
        known = self._preset
        unsaid = known.unsaid if known else ModelFacts()
        return BackendFacts(
            models=listed(self.models, unsaid=unsaid),
            unlisted=unsaid,
            operations=self.operations or (known.operations if known else frozenset(_PATHS)),
            concurrency=self.concurrency if isinstance(self.concurrency, int) else None,
            adaptive=self.concurrency.adaptive if isinstance(self.concurrency, Adaptive) else None,
            prompt_cache=self.prompt_cache or (known.prompt_cache if known else None),
        )


def _httpx(origin: Origin, *, http2: bool) -> Connections:
    from backends._httpx_connections import HttpxConnections  # noqa: PLC0415  # a second's import, where it is wanted

    return HttpxConnections(origin, http2=http2)


def _is_stream(answer: UpstreamAnswer, *, asked: bool) -> bool:
    """Whether the answer is a stream, by what it says of itself; as asked where it says nothing.

    Raises:
        UpstreamInvalid: it is neither a stream of events nor JSON, or is compressed though we asked for plain bytes.
    """
    headers = dict(answer.headers)
    if headers.get("content-encoding", "").strip().lower() not in {"", "identity"}:
        raise UpstreamInvalid("the upstream compressed its answer though it was asked not to")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "text/event-stream":
        return True
    if kind == "application/json" or kind.endswith("+json"):
        return False
    if not kind:
        return asked
    raise UpstreamInvalid("the upstream answered with neither JSON nor a stream of events")
