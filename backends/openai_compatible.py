"""Any server that speaks OpenAI's API: providers, vLLM, SGLang, llama-server, or another Headrace."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import httpx

from backends._headers import HeaderValue, check_headers, resolve_headers
from backends._http import Refusal, from_refusal, from_transport, hide_secrets
from backends._link import Link, checked_url, refusal_body
from backends._models import Models, listed
from backends._presets import Preset, preset_named
from backends._retry_after import read_retry_after
from gateway.errors import UpstreamError, UpstreamInvalid, UpstreamTruncated, UpstreamUnreachable
from gateway.ports import BackendFacts, Clock, Sink, Surroundings
from gateway.trace_context import headers_for
from gateway.types import Call, Finish, Operation
from gateway.wire.formats import FORMATS

_PATHS: Mapping[Operation, str] = {Operation.CHAT: "/chat/completions", Operation.COMPLETION: "/completions"}


@dataclass(slots=True)
class _Open:
    """What ``start`` opens and ``close`` gives back."""

    name: str = ""
    link: Link | None = None
    clock: Clock | None = None
    secrets: frozenset[str] = frozenset()


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
            and nowhere else.
        models: Names, or names with ``context_tokens``, ``capabilities`` and ``price``.
        operations: ``chat``, ``completion``; both, unless a preset knows better.
        headers: Further request headers; ``{env: NAME}`` for a value out of the environment.
        concurrency: How many requests it serves at once, where that is known.
        connect_timeout_s: For a connection, and for one of ours to be free.
        keep_alive_s: How long an idle connection is used again: shorter than servers keep theirs, which is 5 s for
            uvicorn, so that none is used in the moment in which the server closes it.
        max_connections: At most so many at once.
        verify: Certificates to trust: ``true`` for the usual ones, a path to a file of CA certificates, ``false`` for
            none at all, which lets anybody on the way read the key.
        propagate_trace: Whether to send W3C trace context. Off: trace ids are not for third parties.
        max_answer_bytes: Of an answer that is not streamed.
        max_retry_after_s: The longest ``Retry-After`` that is believed.
    """

    preset: str = ""
    base_url: str = ""
    api_key_env: str = ""
    models: Models = ()
    operations: frozenset[Operation] = frozenset()
    headers: Mapping[str, HeaderValue] = field(default_factory=dict)
    concurrency: int | None = None
    connect_timeout_s: float = 5.0
    keep_alive_s: float = 4.0
    max_connections: int = 1000
    verify: bool | str = True
    propagate_trace: bool = False
    max_answer_bytes: int = 32 * 1024 * 1024
    max_retry_after_s: float = 300.0
    _open: _Open = field(init=False, repr=False, compare=False, default_factory=_Open)

    def __post_init__(self) -> None:
        for name in ("connect_timeout_s", "keep_alive_s", "max_connections", "max_answer_bytes", "max_retry_after_s"):
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` must be more than zero")
        if self.concurrency is not None and self.concurrency < 1:
            raise ValueError("`concurrency` must be at least 1")
        check_headers(self.headers)
        if self._key_env and "authorization" in {name.lower() for name in self.headers}:
            raise ValueError("`headers`: `authorization` is already made from `api_key_env`")
        checked_url(self._address)
        listed(self.models)

    async def start(self, name: str, world: Surroundings) -> None:
        """See ``Backend.start``.

        Raises:
            ConfigurationError: an environment variable that is named here is not set.
        """
        headers, secrets = resolve_headers(self.headers, api_key_env=self._key_env, secret=world.secret)
        self._open.name, self._open.clock, self._open.secrets = name, world.clock, secrets
        self._open.link = Link(
            base_url=checked_url(self._address),
            headers=headers,
            connect_timeout_s=self.connect_timeout_s,
            keep_alive_s=self.keep_alive_s,
            max_connections=self.max_connections,
            verify=self.verify,
        )

    async def send(self, call: Call, sink: Sink) -> Finish:
        """See ``Backend.send``."""
        try:
            return await self._send(call, sink)
        except httpx.TransportError as error:
            ours = from_transport(error)
            ours.backend = self._open.name
            raise ours from error
        except UpstreamError as error:
            error.backend = error.backend or self._open.name
            hide_secrets(error, self._open.secrets)
            raise

    def facts(self) -> BackendFacts:
        """See ``Backend.facts``: all that is known is what the policy file says."""
        return self._facts

    async def close(self) -> None:
        """See ``Backend.close``."""
        if self._open.link is not None:
            await self._open.link.close()
            self._open.link = None

    async def _send(self, call: Call, sink: Sink) -> Finish:
        link, operation = self._open.link, call.request.arrival.operation
        if link is None:
            raise UpstreamUnreachable("the backend is closed")
        asked_stream = call.request.stream
        body = FORMATS[operation].upstream_body(call.request, call.model)
        headers = headers_for(call.trace) if self.propagate_trace else {}
        async with link.post(_PATHS[operation], body, streamed=asked_stream, headers=headers) as response:
            if not response.is_success:
                raise await self._refusal(response)
            streamed = _is_stream(response, asked=asked_stream)
            sink.begin(streamed=streamed)
            try:
                await self._pour(response, sink, limit_bytes=None if streamed else self.max_answer_bytes)
            except httpx.TransportError as error:
                if not streamed:
                    raise UpstreamTruncated("the connection broke in the middle of the answer") from error
                # Of a stream the sink knows whether its end had come before the break; where not, it raises.
        return await sink.end()

    async def _pour(self, response: httpx.Response, sink: Sink, *, limit_bytes: int | None) -> None:
        taken_bytes = 0
        async for piece in response.aiter_raw():
            taken_bytes += len(piece)
            if limit_bytes is not None and taken_bytes > limit_bytes:
                raise UpstreamInvalid(f"the answer is longer than {limit_bytes} bytes")
            await sink.push(piece)

    async def _refusal(self, response: httpx.Response) -> UpstreamError:
        clock = self._open.clock
        refusal = Refusal(
            status=response.status_code,
            body=await refusal_body(response),
            retry_after_s=read_retry_after(
                response.headers.get_list("retry-after"),
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
        address = self.base_url or (self._preset.base_url if self._preset else "")
        if not address:
            raise ValueError("`base_url` or `preset` must be given")
        return address

    @cached_property
    def _key_env(self) -> str:
        return self.api_key_env or (self._preset.api_key_env if self._preset else "")

    @cached_property
    def _facts(self) -> BackendFacts:
        known = self._preset
        return BackendFacts(
            models=listed(self.models, lacks=known.lacks if known else frozenset()),
            operations=self.operations or (known.operations if known else frozenset(_PATHS)),
            concurrency=self.concurrency,
        )


def _is_stream(response: httpx.Response, *, asked: bool) -> bool:
    """Whether the answer is a stream, by what it says of itself; as asked where it says nothing.

    Raises:
        UpstreamInvalid: it is neither a stream of events nor JSON, or is compressed though we asked for plain bytes.
    """
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in {"", "identity"}:
        raise UpstreamInvalid("the upstream compressed its answer though it was asked not to")
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "text/event-stream":
        return True
    if kind == "application/json" or kind.endswith("+json"):
        return False
    if not kind:
        return asked
    raise UpstreamInvalid("the upstream answered with neither JSON nor a stream of events")
