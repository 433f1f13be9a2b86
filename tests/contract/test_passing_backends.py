"""What every backend does that passes requests on as they come: one suite over all of them and all such operations."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from gateway.errors import UpstreamError, UpstreamInvalid, UpstreamRefused, UpstreamTruncated, UpstreamUnauthorised
from gateway.ports import Backend
from gateway.rules.plugins import build, names
from gateway.types import Arrival, Call, ChatRequest, Finish, Operation, TraceContext
from gateway.wire.formats import FORMATS
from gateway.wire.passages import PASSED, UPLOADS
from gateway.wire.passed_views import PassedBytes, PassedWhole
from tests.loopback import Conversation, Received, Upstream, chunk, head

KEY = "sk-canary-0123456789"
TRACE = TraceContext(trace_id="0" * 32, span_id="0" * 16)
FORM_TYPE = "multipart/form-data; boundary=b"
FORM = (
    b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\n%b\r\n'
    b'--b\r\nContent-Disposition: form-data; name="prompt"\r\n\r\nx\r\n'
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.mp3"\r\n\r\n\x00\xff\r\n--b--\r\n'
)
SOUND = bytes(range(256)) * 300
ANSWER = b'{"results":[],"data":[{}],"text":"hi","duration":7}'
OWN, HTTPX = {"transport": "own"}, {"transport": "httpx"}
COMPATIBLE = {"use": "openai_compatible", "operations": [*PASSED]}
AZURE = {"use": "azure_openai"}
DATED = {**AZURE, "api_version": "2024-10-21"}

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "openai_compatible": {**COMPATIBLE, **OWN},
    "openai_compatible over httpx": {**COMPATIBLE, **HTTPX},
    "openai": {"use": "openai_compatible", "preset": "openai"},
    "vllm": {"use": "openai_compatible", "preset": "vllm"},
    "cohere": {"use": "openai_compatible", "preset": "cohere"},
    "azure": AZURE,
    "azure by deployment": DATED,
}
"""Backends that speak with an upstream, and what they call its paths."""


def _path(name: str, operation: Operation, base: str) -> str:
    usual = {
        Operation.MODERATION: "/moderations",
        Operation.TRANSCRIPTION: "/audio/transcriptions",
        Operation.TRANSLATION: "/audio/translations",
        Operation.SPEECH: "/audio/speech",
        Operation.IMAGE: "/images/generations",
        Operation.IMAGE_EDIT: "/images/edits",
        Operation.IMAGE_VARIATION: "/images/variations",
        Operation.RERANK: "/rerank",
    }[operation]
    if name == "cohere":
        return "/v2/rerank"
    if name == "azure by deployment":
        return f"{base}/deployments/served{usual}?api-version=2024-10-21"
    return f"{base}/v1{usual}" if name == "azure" else f"{base}{usual}"


def _request(operation: Operation) -> ChatRequest:
    body = msgspec.json.encode(
        {"model": "asked", "input": "x", "prompt": "x", "query": "x", "documents": ["x"], "new": 1}
    )
    uploads = operation in UPLOADS
    arrival = Arrival(
        id="r",
        operation=operation,
        tenant="t",
        received_s=1.0,
        received_unix_s=2.0,
        trace=TRACE,
        format_headers=(("content-type", FORM_TYPE),) if uploads else (),
    )
    return FORMATS[operation].read(arrival, FORM.replace(b"%b", b"asked") if uploads else body)


class Sink:
    """Takes an answer as it comes, and keeps it."""

    def __init__(self, request: ChatRequest) -> None:
        self.headers: dict[str, str] = {}
        self.received = b""
        self._request = request

    def begin(self, *, streamed: bool) -> None:
        """Nothing that is passed on begins so."""
        raise AssertionError(f"it was taken for text (streamed: {streamed})")

    def pass_on(self, headers: Sequence[tuple[str, str]]) -> None:
        """See ``PassingSink``."""
        self.headers = dict(headers)

    async def push(self, data: bytes) -> None:
        """See ``Sink``."""
        self.received += data

    async def end(self) -> Finish:
        """See ``Sink``."""
        if self.headers["content-type"] != "application/json":
            view = PassedBytes(self._request)
            view.feed(self.received)
            view.end()
            return Finish(reason="", usage=view.usage)
        look = PassedWhole(self._request)
        look.take(self.received)
        return Finish(reason="", usage=look.usage)


@pytest.fixture
def opened(serve: Any, surroundings: Any) -> Callable[..., Any]:
    """Starts a backend before an upstream that answers as told."""

    @asynccontextmanager
    async def open_(name: str, respond: Any) -> AsyncIterator[tuple[Backend, Upstream]]:
        async with serve(respond) as upstream:
            fields = {"base_url": upstream.url, "api_key_env": "KEY", "models": ["served"], **SETTINGS[name]}
            backend = build("backend", fields, where="backends.under-test")
            await backend.start("under-test", surroundings(KEY=KEY))
            yield backend, upstream
            await backend.close()

    return open_


def _each() -> list[Any]:
    """Each setting with each operation that it says it serves."""
    found = []
    for name, fields in SETTINGS.items():
        facts = build(
            "backend", {"base_url": "http://h/v1", "api_key_env": "KEY", **fields}, where="backends.x"
        ).facts()
        found += [pytest.param(name, one, id=f"{name}-{one}") for one in sorted(facts.operations & PASSED)]
    return found


each = pytest.mark.parametrize(("name", "operation"), _each())


def test_nobody_claims_what_it_cannot_do() -> None:
    """The made-up one does everything; the others that are not here speak with no upstream that has any of it."""
    others = set(names("backend")) - {fields["use"] for fields in SETTINGS.values()} - {"fake"}
    needed: dict[str, dict[str, Any]] = {"bedrock": {"region": "eu-central-1"}}
    for use in others:
        facts = build("backend", {"use": use, **needed.get(use, {})}, where="backends.x").facts()
        assert frozenset() == facts.operations & PASSED, use
    assert PASSED <= build("backend", {"use": "fake"}, where="backends.x").facts().operations


@each
async def test_what_goes_up_is_the_clients_own(opened: Any, name: str, operation: Operation) -> None:
    """Where it belongs, with the model's name of that place, the form's type, and our key alone."""

    async def answer(_: Received, conversation: Conversation) -> None:
        await conversation.answer(ANSWER)

    request = _request(operation)
    async with opened(name, answer) as (backend, upstream):
        sink = Sink(request)
        await backend.send(Call(request=request, model="served", trace=TRACE), sink)
        (received,) = upstream.requests
    assert _path(name, operation, "/v1") == received.path
    if operation in UPLOADS:
        assert received.body == FORM.replace(b"%b", b"served")
        assert FORM_TYPE == dict(received.headers)["content-type"]
    else:
        assert {**msgspec.json.decode(msgspec.json.encode({**request.raw})), "model": "served"} == received.json
        assert "application/json" == dict(received.headers)["content-type"]
    assert any(KEY in value for _, value in received.headers)
    assert (ANSWER, {"content-type": "application/json"}) == (sink.received, sink.headers)


@each
async def test_what_comes_down_is_the_upstreams_own(opened: Any, name: str, operation: Operation) -> None:
    """Whatever it is, with the headers that belong to it."""
    told = {"content-type": "audio/mpeg", "content-disposition": "inline", "x-own": "1", "set-cookie": "a=b"}

    async def answer(_: Received, conversation: Conversation) -> None:
        await conversation.send(head(200, {**told, "transfer-encoding": "chunked"}))
        await conversation.send(*(chunk(SOUND[at : at + 999]) for at in range(0, len(SOUND), 999)), b"0\r\n\r\n")

    request = _request(operation)
    sink = Sink(request)
    async with opened(name, answer) as (backend, _):
        finish = await backend.send(Call(request=request, model="served", trace=TRACE), sink)
    assert SOUND == sink.received
    assert {"content-type": "audio/mpeg", "content-disposition": "inline"} == sink.headers
    assert request.units == finish.usage.units


BROKEN: Mapping[str, tuple[bytes, type[UpstreamError]]] = {
    "cut short": (head(200, {"content-type": "audio/mpeg", "content-length": "99"}) + b"x", UpstreamTruncated),
    "compressed": (
        head(200, {"content-type": "audio/mpeg", "content-encoding": "gzip", "content-length": "1"}) + b"x",
        UpstreamInvalid,
    ),
    "no json": (head(200, {"content-type": "application/json", "content-length": "1"}) + b"<", UpstreamInvalid),
    "refused": (
        head(400, {"content-type": "application/json", "content-length": "38"})
        + b'{"error":{"message":"no","param":"n"}}',
        UpstreamRefused,
    ),
    "our key": (head(401, {"content-length": "0"}), UpstreamUnauthorised),
}


@pytest.mark.parametrize("broken", BROKEN)
@each
async def test_what_goes_wrong_is_told(opened: Any, name: str, operation: Operation, broken: str) -> None:
    """By the same classes as for text, and without our key."""
    sent, expected = BROKEN[broken]

    async def answer(_: Received, conversation: Conversation) -> None:
        await conversation.send(sent)
        conversation.writer.close()

    request = _request(operation)
    async with opened(name, answer) as (backend, _):
        with pytest.raises(expected) as caught:
            await backend.send(Call(request=request, model="served", trace=TRACE), Sink(request))
    assert ("under-test", False) == (caught.value.backend, KEY in str(caught.value))


@each
async def test_a_call_that_is_cancelled_leaves_no_connection(opened: Any, name: str, operation: Operation) -> None:
    """The upstream sees at once that nobody listens."""

    async def never(_: Received, conversation: Conversation) -> None:
        await conversation.until_closed()

    request = _request(operation)
    async with opened(name, never) as (backend, upstream):
        sending = asyncio.create_task(backend.send(Call(request=request, model="served", trace=TRACE), Sink(request)))
        await upstream.until(lambda it: it.answering == 1)
        sending.cancel()
        await upstream.until(lambda it: it.answering == 0)
        assert sending.cancelled() or sending.cancelling()
