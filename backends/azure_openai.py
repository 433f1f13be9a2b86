"""OpenAI's models at Microsoft Azure, by either of its addresses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from backends._base_url import check_base_url
from backends._entra import Entra, EntraAccount
from backends._headers import HeaderValue, check_headers, variables
from backends._http_fields import Transport, check_fields
from backends._keys import KeyNames
from backends._listed_card import ListedCard
from backends._models import Models, listed
from backends._openai_calls import PATHS, openai_request
from backends._presets import Preset, preset_named
from backends._upstream import Ask, Upstream
from gateway.facts import BackendFacts, Concurrency, ModelFacts, Needs, PromptCache
from gateway.ports import Sink, Surroundings
from gateway.trace_context import headers_for
from gateway.types import Call, Finish, Operation
from gateway.wire.anthropic_count import push_whole
from gateway.wire.formats import FORMATS
from gateway.wire.hub import translated
from gateway.wire.own_answers import own_answer

_KEY_ENV = "AZURE_OPENAI_API_KEY"
_OF_DEPLOYMENTS = frozenset(
    {
        Operation.CHAT,
        Operation.COMPLETION,
        Operation.EMBEDDING,
        Operation.TRANSCRIPTION,
        Operation.TRANSLATION,
        Operation.SPEECH,
        Operation.IMAGE,
        Operation.IMAGE_EDIT,
    }
)
_OF_V1 = _OF_DEPLOYMENTS | {Operation.RESPONSE}
_V1 = frozenset({"", "v1", "latest", "preview"})


def _key_header(key: str) -> Mapping[str, str]:
    return {"api-key": key}


def _openai() -> Preset:
    return preset_named("openai")


@dataclass(frozen=True, kw_only=True)
class AzureOpenAI:
    """OpenAI's models in a resource of Microsoft Azure: a model's name is its deployment's.

    The client's body goes up as it came, as for ``openai_compatible``, and the answer's bytes come down as they are,
    with Azure's content filter's findings. A prompt that the filter refuses is a 400 with the code ``content_filter``;
    nobody else is asked. Anthropic's clients are translated, and those of Responses where ``api_version`` is a dated
    one, for that address has none.

    Example::

        backends:
          azure:
            use: azure_openai
            resource: my-resource
            models: [gpt-5-mini]
          azure-without-keys:
            use: azure_openai
            resource: my-resource
            api_version: "2024-10-21"
            entra: {}
            models: {gpt-4o-of-sales: {price: {input_usd_per_mtok: 2.5, output_usd_per_mtok: 10}}}

    Attributes:
        resource: The resource's name: the address is then ``https://{resource}.openai.azure.com/openai``.
        base_url: Another address, up to and including ``/openai``.
        api_version: Left out for the v1 API, ``/openai/v1/chat/completions``, where ``preview`` asks for what is no
            standard yet; a date for the older one, ``/openai/deployments/{model}/chat/completions?api-version=...``.
        api_key_env: The environment variable that holds the key, sent as ``api-key``; or a list of several.
            ``AZURE_OPENAI_API_KEY`` where there is a ``resource`` and no ``entra``.
        entra: Tokens of Microsoft Entra ID instead of a key. ``{}`` for the machine's managed identity, with
            ``client_id`` where it has several; ``tenant_id``, ``client_id`` and ``client_secret_env`` for an
            application. ``scope``, ``authority`` and ``identity_endpoint`` for other clouds. A token is renewed
            five minutes before it ends, while requests go on with the old one.
        models: Deployments, or deployments with ``context_tokens``, ``capabilities``, ``price`` and ``card``. One that
            is named as its model has the price that Azure publishes.
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
            ``at_first_token``. OpenAI's own unless given.
        card: How it computes its models, and what is known of that: ``precision``, ``engine``, ``speculation``,
            ``equivalence``, ``evidence``. A model's own ``card`` goes before it, field by field.
    """

    resource: str = ""
    base_url: str = ""
    api_version: str = ""
    api_key_env: KeyNames = ""
    entra: Entra | None = None
    models: Models = ()
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
        if bool(self.resource) == bool(self.base_url):
            raise ValueError("either `resource` or `base_url` must be given")
        if self.entra is not None and self.api_key_env:
            raise ValueError("`api_key_env` and `entra` are two ways to say who asks: one of them")
        check_headers(self.headers, api_key_env=self._key_env)
        if {"api-key", "authorization"} & {name.lower() for name in self.headers}:
            raise ValueError("`headers`: who asks is said by `api_key_env` or `entra`")
        check_base_url(self._address)
        listed(self.models)

    async def start(self, name: str, world: Surroundings) -> None:
        """See ``Backend.start``.

        Raises:
            ConfigurationError: an environment variable that is named here is not set.
        """
        if self.entra is not None:
            account = EntraAccount(self.entra, world)
            self._accounts.append(account)
            self._upstream.authorise = account.headers
        self._upstream.open(name, world, self, base_url=self._address, api_key_env=self._key_env)

    async def send(self, call: Call, sink: Sink) -> Finish:
        """See ``Backend.send``."""
        facts = self._facts
        if (own := own_answer(call)) is not None:
            return await push_whole(sink, own)
        request, sink = openai_request(call, sink, translates=facts.translates, dialect=_openai().dialect)
        operation = request.arrival.operation
        headers = dict(request.arrival.format_headers)
        if self.propagate_trace:
            headers |= headers_for(call.trace)
        body = FORMATS[operation].upstream_body(request, call.model)
        ask = Ask(
            path=self._path(operation, call.model),
            body=body,
            headers=headers,
            streamed=request.stream,
            passes=request.units is not None,
        )
        return await self._upstream.send(ask, sink)

    def facts(self) -> BackendFacts:
        """See ``Backend.facts``: all that is known is what the policy file says."""
        return self._facts

    def needs(self, model_dir: Path) -> Needs:  # noqa: ARG002  # the port's signature
        """What must be there before it is started: its credentials."""
        named = variables(self.headers, api_key_env=self._key_env)
        secret = self.entra.client_secret_env if self.entra else ""
        return Needs(environment=(*named, secret) if secret else named)

    async def close(self) -> None:
        """See ``Backend.close``."""
        await self._upstream.close()
        while self._accounts:
            await self._accounts.pop().close()

    def _path(self, operation: Operation, model: str) -> str:
        if self.api_version not in _V1:
            return f"/deployments/{quote(model, safe='')}{PATHS[operation]}?api-version={quote(self.api_version)}"
        return f"/v1{PATHS[operation]}" + (f"?api-version={self.api_version}" if self.api_version else "")

    @cached_property
    def _accounts(self) -> list[EntraAccount]:
        return []

    @cached_property
    def _upstream(self) -> Upstream:
        return Upstream(credential=_key_header)

    @cached_property
    def _address(self) -> str:
        return (self.base_url or f"https://{quote(self.resource, safe='')}.openai.azure.com/openai").rstrip("/")

    @cached_property
    def _key_env(self) -> KeyNames:
        """The usual variable; a server elsewhere gets no key unless it is named."""
        return self.api_key_env or (_KEY_ENV if self.resource and self.entra is None else "")

    @cached_property
    def _facts(self) -> BackendFacts:
        unsaid = ModelFacts(card=self.card)
        spoken = _OF_V1 if self.api_version in _V1 else _OF_DEPLOYMENTS
        translates = translated(spoken)
        return BackendFacts(
            models=listed(self.models, unsaid=unsaid),
            unlisted=unsaid,
            operations=spoken | translates,
            translates=translates,
            prompt_cache=self.prompt_cache or _openai().prompt_cache,
            price_list="azure",
        ).taking(self.concurrency)
