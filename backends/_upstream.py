"""An upstream over HTTP that answers in server-sent events or JSON: one request, its answer, and what may go wrong."""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from backends._headers import bearer, resolve_headers, resolve_keys
from backends._http import Refusal, from_refusal, hide_secrets, refusal_body
from backends._http_fields import HttpFields, origin_of
from backends._keys import KeyNames, KeyRing
from backends._retry_after import read_retry_after
from gateway.errors import UpstreamError, UpstreamInvalid, UpstreamTruncated, UpstreamUnreachable
from gateway.ports import Clock, Connections, Origin, PassingSink, Sink, Surroundings, UpstreamAnswer
from gateway.types import Finish

_SUCCESS = range(200, 300)
_EVENTS = "text/event-stream"
_STREAMS = frozenset({_EVENTS, "application/vnd.amazon.eventstream", "application/x-ndjson"})
_ACCEPT_EVENTS: Mapping[str, str] = MappingProxyType({"accept": _EVENTS})
_ACCEPT_JSON: Mapping[str, str] = MappingProxyType({"accept": "application/json"})
_ACCEPT_ANYTHING: Mapping[str, str] = MappingProxyType({"accept": "*/*"})
_NO_ACCOUNT: Mapping[str, str] = MappingProxyType({})
_PASSED = frozenset({"content-type", "content-disposition"})
"""The headers of an answer that belong to its body."""

Credential = Callable[[str], Mapping[str, str]]
"""The headers that carry a key."""


def bearer_header(key: str) -> Mapping[str, str]:
    """The ``Credential`` of most providers."""
    return {"authorization": bearer(key)}


class Ask(Struct, frozen=True, kw_only=True):
    """What goes up: where to, the body, and headers beside those that always go.

    Of what ``passes`` any answer goes on as it comes; else it is a stream of events or JSON, as ``streamed`` says.
    """

    path: str
    body: bytes
    headers: Mapping[str, str]
    streamed: bool
    passes: bool = False


Authorise = Callable[[Ask], Awaitable[Mapping[str, str]]]
"""The headers that say who asks, where they are made anew for each request: a token that ends, a signature."""


@dataclass(slots=True, kw_only=True)
class Upstream:
    """What a backend opens when it starts and gives back when it closes.

    ``credential`` turns a key into headers. With ``authorise`` no key is needed; ``error_of`` makes an error of a
    refusal.
    """

    credential: Credential
    name: str = ""
    authorise: Authorise | None = None
    error_of: Callable[[Refusal, Collection[str]], UpstreamError] = from_refusal
    _connections: Connections | None = None
    _clock: Clock | None = None
    _secrets: frozenset[str] = frozenset()
    _keys: KeyRing | None = None
    _most_bytes: int = 0
    _longest_wait_s: float = 0.0

    def open(
        self,
        name: str,
        world: Surroundings,
        fields: HttpFields,
        *,
        base_url: str,
        api_key_env: KeyNames,
        client_certificate: str = "",
        client_key: str = "",
    ) -> Origin:
        """Reads the credentials and opens connections to ``base_url``, by the backend's ``fields``.

        Returns where it is and with which headers: for whoever asks it beside the requests.

        Raises:
            ConfigurationError: an environment variable that is named is not set.
        """
        always, self._secrets = resolve_headers(
            fields.headers, api_key_env=api_key_env, secret=world.secret, credential=self.credential
        )
        self.name, self._clock = name, world.clock
        self._most_bytes, self._longest_wait_s = fields.max_answer_bytes, fields.max_retry_after_s
        keys = resolve_keys(api_key_env, secret=world.secret)
        self._keys = KeyRing(name, keys, clock=world.clock) if len(keys) > 1 else None
        place = origin_of(
            fields, base_url=base_url, headers=always, client_certificate=client_certificate, client_key=client_key
        )
        behind_proxy = fields.transport == "auto" and world.behind_proxy(place.base_url)
        if behind_proxy or fields.transport in {"httpx", "http2"}:
            self._connections = _httpx(place, http2=fields.transport == "http2")
        else:
            self._connections = world.connect(place)
        return place

    def send(self, ask: Ask, sink: Sink) -> Coroutine[Any, Any, Finish]:
        """Sends ``ask`` and pushes its answer into ``sink``; returns what the sink's ``end`` says.

        Raises:
            UpstreamError: mapped from whatever went wrong, without our secrets, with the backend's name.
        """
        if self.authorise is not None:
            return self._send_authorised(self.authorise, ask, sink)
        return self._send(ask, sink, _NO_ACCOUNT) if self._keys is None else self._send_with_key(self._keys, ask, sink)

    async def close(self) -> None:
        """Closes all connections; idempotent."""
        if self._connections is not None:
            await self._connections.close()
            self._connections = None

    async def _send_authorised(self, authorise: Authorise, ask: Ask, sink: Sink) -> Finish:
        try:
            account = await authorise(ask)
        except UpstreamError as error:
            self._name(error, _NO_ACCOUNT)
            raise
        return await self._send(ask, sink, account)

    async def _send_with_key(self, keys: KeyRing, ask: Ask, sink: Sink) -> Finish:
        with keys.key() as key:
            return await self._send(ask, sink, self.credential(key.secret))

    async def _send(self, ask: Ask, sink: Sink, account: Mapping[str, str]) -> Finish:
        headers = _ACCEPT_ANYTHING if ask.passes else _ACCEPT_EVENTS if ask.streamed else _ACCEPT_JSON
        if ask.headers or account:
            headers = {**headers, **ask.headers, **account}
        try:
            if self._connections is None:
                raise UpstreamUnreachable("the backend is closed")
            async with self._connections.post(ask.path, ask.body, headers=headers) as answer:
                if answer.status not in _SUCCESS:
                    raise await self._refusal(answer, self._secrets_with(account))
                if ask.passes:
                    return await self._pass_on(answer, sink)
                streamed = _is_stream(answer, asked=ask.streamed)
                sink.begin(streamed=streamed)
                try:
                    if streamed:
                        await answer.pour(sink.push)
                    elif body := await answer.whole(self._most_bytes):
                        await sink.push(body)
                except UpstreamUnreachable as error:
                    if not streamed:
                        raise _broken() from error
                    # Of a stream the sink knows whether its end had come before the break; where not, it raises.
            return await sink.end()
        except UpstreamError as error:
            self._name(error, account)
            raise

    def _name(self, error: UpstreamError, account: Mapping[str, str]) -> None:
        """Says whose error it is, and takes our secrets out of it."""
        error.backend = error.backend or self.name
        hide_secrets(error, self._secrets_with(account))

    async def _pass_on(self, answer: UpstreamAnswer, sink: Sink) -> Finish:
        """Any answer, as it comes. Where it breaks, only events can have said before that they were all."""
        if not isinstance(sink, PassingSink):
            raise TypeError("this sink takes no answer as it comes")
        _check_plain(answer)
        headers = [(name, value) for name, value in answer.headers if name in _PASSED]
        sink.pass_on(headers)
        try:
            await answer.pour(sink.push)
        except UpstreamUnreachable as error:
            if _kind(answer.header("content-type")) != _EVENTS:
                raise _broken() from error
        return await sink.end()

    def _secrets_with(self, account: Mapping[str, str]) -> Collection[str]:
        """Ours, and what stands behind the scheme in the headers that were made for this request."""
        return self._secrets.union(value.rpartition(" ")[2] for value in account.values())

    async def _refusal(self, answer: UpstreamAnswer, secrets: Collection[str]) -> UpstreamError:
        refusal = Refusal(
            status=answer.status,
            body=await refusal_body(answer),
            retry_after_s=read_retry_after(
                [value for name, value in answer.headers if name == "retry-after"],
                now_unix_s=self._clock.unix_s() if self._clock else 0.0,
                cap_s=self._longest_wait_s,
            ),
            kind=next((value for name, value in answer.headers if name == "x-amzn-errortype"), ""),
        )
        return self.error_of(refusal, secrets)


def _httpx(origin: Origin, *, http2: bool) -> Connections:
    from backends._httpx_connections import HttpxConnections  # noqa: PLC0415  # a second's import, where it is wanted

    return HttpxConnections(origin, http2=http2)


def _is_stream(answer: UpstreamAnswer, *, asked: bool) -> bool:
    """Whether the answer is a stream, by what it says of itself; as asked where it says nothing.

    Raises:
        UpstreamInvalid: it is neither a stream of events nor JSON, or is compressed though we asked for plain bytes.
    """
    _check_plain(answer)
    kind = _kind(answer.header("content-type"))
    if kind in _STREAMS:
        return True
    if kind == "application/json" or kind.endswith("+json"):
        return False
    if not kind:
        return asked
    raise UpstreamInvalid("the upstream answered with neither JSON nor a stream of events")


@lru_cache(maxsize=256)
def _kind(content_type: str) -> str:
    """The media type, empty where an answer does not say."""
    return content_type.partition(";")[0].strip().lower()


def _check_plain(answer: UpstreamAnswer) -> None:
    """Refuses what is compressed.

    Raises:
        UpstreamInvalid: it is.
    """
    coding = answer.header("content-encoding")
    if coding and coding.lower() != "identity":
        raise UpstreamInvalid("the upstream compressed its answer though it was asked not to")


def _broken() -> UpstreamTruncated:
    return UpstreamTruncated("the connection broke in the middle of the answer")
