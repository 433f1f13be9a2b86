"""Amazon Bedrock, by its one format for all of its models: Converse."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from backends._anthropic_models import models_of
from backends._aws_errors import from_aws_refusal
from backends._base_url import check_base_url
from backends._headers import HeaderValue, check_headers, resolve_keys, variables
from backends._http_fields import Transport, check_fields
from backends._keys import KeyNames
from backends._listed_card import ListedCard
from backends._models import Models, listed
from backends._upstream import Ask, Upstream, bearer_header
from gateway.errors import ConfigurationError
from gateway.facts import BackendFacts, Concurrency, ModelFacts, Needs, PromptCache
from gateway.ports import Sink, Surroundings
from gateway.trace_context import headers_for
from gateway.types import Call, Finish, Operation
from gateway.wire.anthropic_count import push_whole
from gateway.wire.chat_to_converse import CARRIES, ConverseTerms, converse_body
from gateway.wire.converse_reader import converse_reader
from gateway.wire.hub import TRANSLATED, answering, chat_request
from gateway.wire.own_answers import own_answer

if TYPE_CHECKING:
    from backends._aws_signature import AwsAccount

_TRANSLATES = TRANSLATED | {Operation.CHAT}
_CAPABILITIES = frozenset({"audio", "file", "json_schema", "tools", "vision"})
_EVENT_STREAM = {"accept": "application/vnd.amazon.eventstream"}
_NEEDS = "pip install 'headrace[bedrock]'"


@dataclass(frozen=True, kw_only=True)
class Bedrock:
    """Amazon Bedrock's Converse: one format for the models of many makers. It needs the extra ``bedrock``.

    Every client's format is translated: instructions, pictures, documents, audio, tools, tool choice, results, stop
    strings, structured outputs, efforts of thinking, signed thoughts both ways, marks of the prompt cache;
    ``docs/translation.md`` has every field. What has no place there (``seed``, ``n``, ``logprobs``, pictures by their
    address...) is refused by name, unless the route may drop it.

    Example::

        backends:
          bedrock:
            use: bedrock
            region: eu-central-1
            models:
              eu.anthropic.claude-sonnet-4-5-20250929-v1:0:
                context_tokens: 200000
                price: {input_usd_per_mtok: 3, output_usd_per_mtok: 15}
              amazon.nova-lite-v1:0:
          bedrock-by-key:
            use: bedrock
            region: us-east-1
            api_key_env: AWS_BEARER_TOKEN_BEDROCK
            models: ["openai.gpt-oss-120b-1:0"]
            thinking: effort

    Attributes:
        region: AWS's region, of the address and of the signature.
        base_url: Another address than ``https://bedrock-runtime.{region}.amazonaws.com``: an endpoint of your own
            network.
        access_key_env: The environment variable that holds the id of an access key; with ``secret_key_env``. Without
            these, credentials are looked up as AWS's own tools do: variables, files, the role of a container or a
            machine. Those that end are renewed beside the path of requests.
        secret_key_env: The environment variable that holds the secret access key.
        session_token_env: The environment variable that holds the session token of temporary credentials.
        profile: Of AWS's configuration files, where credentials are looked up.
        api_key_env: The environment variable that holds one of Bedrock's API keys, sent as ``Authorization: Bearer``
            instead of a signature; or a list of several.
        models: Ids of models or inference profiles, or ids with ``context_tokens``, ``capabilities``, ``price`` and
            ``card``. What reading from the prompt cache and writing to it costs is 0.1 and 1.25 times the input, unless
            the price says it.
        thinking: How ``reasoning_effort`` is told to the models: ``budget`` for Claude's number of tokens, ``effort``
            for others, which take a word.
        cache_marks: Whether marks of the prompt cache that clients set go on. ``false`` for models that refuse them.
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
        prompt_cache: The rules by which its models cache prompts, where they do: ``min_tokens``, ``step_tokens``,
            ``ttl_s``, ``at_first_token``.
        card: How it computes its models, and what is known of that: ``precision``, ``engine``, ``speculation``,
            ``equivalence``, ``evidence``. A model's own ``card`` goes before it, field by field.
    """

    region: str
    base_url: str = ""
    access_key_env: str = ""
    secret_key_env: str = ""
    session_token_env: str = ""
    profile: str = ""
    api_key_env: KeyNames = ""
    models: Models = ()
    thinking: Literal["budget", "effort"] = "budget"
    cache_marks: bool = True
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
        if bool(self.access_key_env) != bool(self.secret_key_env):
            raise ValueError("`access_key_env` and `secret_key_env` go together")
        if self.session_token_env and not self.access_key_env:
            raise ValueError("`session_token_env` goes with `access_key_env` and `secret_key_env`")
        if sum(map(bool, (self.access_key_env, self.profile, self.api_key_env))) > 1:
            raise ValueError("`access_key_env`, `profile` and `api_key_env` are ways to say who asks: one of them")
        check_headers(self.headers, api_key_env=self.api_key_env)
        check_headers({}, api_key_env=self._secret_names)
        if "authorization" in {name.lower() for name in self.headers}:
            raise ValueError("`headers`: who asks has parameters of its own")
        check_base_url(self._address)
        listed(self.models)

    async def start(self, name: str, world: Surroundings) -> None:
        """See ``Backend.start``.

        Raises:
            ConfigurationError: an environment variable that is named here is not set, or botocore is not installed.
        """
        try:
            import backends._aws_event_stream  # noqa: F401, PLC0415  # an extra, needed for every stream
            from backends import _aws_signature  # noqa: PLC0415  # likewise
        except ImportError as error:
            raise ConfigurationError("`bedrock` needs botocore", where="use", hint=_NEEDS) from error
        if not self.api_key_env:
            keys = [key for _, key in resolve_keys(self._secret_names, secret=world.secret)]
            fixed = _aws_signature.fixed_credentials(*keys) if keys else None
            account = _aws_signature.AwsAccount(
                self._address, self.region, clock=world.clock, fixed=fixed, profile=self.profile
            )
            self._accounts.append(account)
            self._upstream.authorise = account.headers
        self._upstream.open(name, world, self, base_url=self._address, api_key_env=self.api_key_env)

    async def send(self, call: Call, sink: Sink) -> Finish:
        """See ``Backend.send``."""
        if (own := own_answer(call)) is not None:
            return await push_whole(sink, own)
        from backends._aws_event_stream import AwsEventParser  # noqa: PLC0415  # there since the start

        streamed = call.request.stream
        headers = headers_for(call.trace) if self.propagate_trace else {}
        ask = Ask(
            path=f"/model/{quote(call.model, safe='')}/{'converse-stream' if streamed else 'converse'}",
            body=converse_body(chat_request(call), self._terms),
            headers={**headers, **_EVENT_STREAM} if streamed else headers,
            streamed=streamed,
        )
        return await self._upstream.send(ask, answering(call, sink, converse_reader(call.model, AwsEventParser)))

    def facts(self) -> BackendFacts:
        """See ``Backend.facts``: all that is known is what the policy file says."""
        return self._facts

    def needs(self, model_dir: Path) -> Needs:  # noqa: ARG002  # the port's signature
        """What must be there before it is started: the credentials that are named."""
        return Needs(environment=(*variables(self.headers, api_key_env=self.api_key_env), *self._secret_names))

    async def close(self) -> None:
        """See ``Backend.close``."""
        await self._upstream.close()
        while self._accounts:
            await self._accounts.pop().close()

    @cached_property
    def _secret_names(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.access_key_env, self.secret_key_env, self.session_token_env)))

    @cached_property
    def _accounts(self) -> list["AwsAccount"]:
        return []

    @cached_property
    def _upstream(self) -> Upstream:
        return Upstream(
            credential=bearer_header,
            error_of=from_aws_refusal,
        )

    @cached_property
    def _terms(self) -> ConverseTerms:
        return ConverseTerms(thinking=self.thinking, cache_marks=self.cache_marks)

    @cached_property
    def _address(self) -> str:
        return (self.base_url or f"https://bedrock-runtime.{quote(self.region, safe='')}.amazonaws.com").rstrip("/")

    @cached_property
    def _facts(self) -> BackendFacts:
        unsaid = ModelFacts(capabilities=_CAPABILITIES, carries=frozenset(CARRIES), card=self.card)
        return BackendFacts(
            models=models_of(self.models, unsaid),
            unlisted=unsaid,
            operations=_TRANSLATES,
            translates=_TRANSLATES,
            prompt_cache=self.prompt_cache,
            price_list="aws",
        ).taking(self.concurrency)
