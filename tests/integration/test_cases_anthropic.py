"""Anthropic's endpoint over upstreams of both formats: what they do to their streams, and what is counted of them."""

import json
from typing import Any

import pytest

from gateway.price import Usage
from gateway.types import Operation
from gateway.wire.openai_answer import StreamWriter
from tests.anthropic_answers import blocks_of, checked_error, checked_events, checked_message
from tests.contract.answer_scripts import AnthropicScript, OpenAIScript

MESSAGES = "/v1/messages"
ASK = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "q"}]}
SAID = "data: 你好 👩‍👩‍👧 \u2028 [DONE]"
KINDS = ["openai_compatible", "anthropic"]
SCRIPTS: dict[str, Any] = {"openai_compatible": OpenAIScript(Operation.CHAT), "anthropic": AnthropicScript()}


def stream_of(kind: str) -> bytes:
    """A good answer as an upstream of that kind streams it."""
    script = SCRIPTS[kind]
    counts = script.writer.usage(Usage(prompt_tokens=5, output_tokens=7)) if kind == KINDS[0] else b""
    return b"".join((script.opened(), script.text(SAID), script.text("!"), script.ended(), counts, script.done()))


def recut(stream: bytes) -> dict[str, list[bytes]]:
    """The stream as networks and servers cut and end its lines."""
    crlf = stream.replace(b"\n", b"\r\n")
    return {
        "as it is": [stream],
        "one byte at a time": [stream[at : at + 1] for at in range(len(stream))],
        "crlf in halves": [*(piece + b"\r" for piece in crlf.split(b"\r"))],
        "cr": [stream.replace(b"\n", b"\r")],
        "bom and comments": [b"\xef\xbb\xbf: hello\n\n", stream.replace(b"\n\n", b"\n: ping\n\n: pong\n\n")],
    }


@pytest.mark.parametrize("kind", KINDS)
async def test_recut_streams_give_the_same_events(gateway_over: Any, kind: str) -> None:
    """However a stream is cut and its lines are ended, the client sees the same events."""
    cuts = recut(stream_of(kind))
    ways = iter(cuts.values())

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.stream(*next(ways))

    front, _ = await gateway_over(respond, use=kind)
    answers = [checked_events((await front.post({**ASK, "stream": True}, path=MESSAGES)).content) for _ in cuts]
    assert f"{SAID}!" == blocks_of(answers[0])[0]["text"]
    assert all(answer == answers[0] for answer in answers)


ENDINGS = {
    "a clean end": lambda script: (script.opened() + script.text("a"), True),
    "a reset": lambda script: (script.opened() + script.text("a"), False),
    "an end inside an event": lambda script: (script.opened() + script.text("a") + script.text("b")[:-9], True),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_stream_that_stops_early_is_no_answer(gateway_over: Any, kind: str, ending: str) -> None:
    """What was delivered stays, one error event follows, nothing invents an end, and the ledger knows."""
    sent, clean = ENDINGS[ending](SCRIPTS[kind])

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.stream(sent, end=clean)
        if not clean:
            conversation.reset()

    front, _ = await gateway_over(respond, use=kind)
    response = await front.post({**ASK, "stream": True}, path=MESSAGES)
    *events, last = response.content.removesuffix(b"\n\n").split(b"\n\n")
    assert any(b'"text":"a"' in event for event in events)
    assert last.startswith(b"event: error\ndata: ")
    assert "api_error" == checked_error(last.partition(b"data: ")[2])["type"]
    assert not any(b"message_delta" in event or b"message_stop" in event for event in events)
    assert "truncated" == (await front.row())["status"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stream", [True, False])
async def test_an_empty_answer_is_a_502(gateway_over: Any, kind: str, stream: bool) -> None:
    """Nothing was sent yet, so it is an answer of its own, in Anthropic's shape."""

    async def respond(_: Any, conversation: Any) -> None:
        await (conversation.stream() if stream else conversation.answer(b""))

    front, _ = await gateway_over(respond, use=kind)
    response = await front.post({**ASK, "stream": stream}, path=MESSAGES)
    assert (502, "api_error") == (response.status_code, checked_error(response.content)["type"])


ERRORS = {
    "openai_compatible": [
        b'data: {"error":{"message":"too much at http://10.0.0.1/","type":"overloaded_error"}}\n\n',
        b'data: {"choices":[],"error":{"message":"too much","type":"overloaded_error"}}\n\n',
        b'event: error\ndata: {"message":"too much","type":"overloaded_error"}\n\n',
    ],
    "anthropic": [
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"too much"}}\n\n',
        b'data: {"type":"error","error":{"type":"overloaded_error","message":"too much at http://10.0.0.1/"}}\n\n',
    ],
}


@pytest.mark.parametrize(("kind", "error"), [(kind, error) for kind, errors in ERRORS.items() for error in errors])
async def test_an_error_inside_a_stream(gateway_over: Any, kind: str, error: bytes) -> None:
    """The deltas before it stay, then exactly one event with its words and its class; no inner host gets out."""
    script = SCRIPTS[kind]

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.stream(script.opened() + script.text("a") + error + script.text("b"))

    front, _ = await gateway_over(respond, use=kind)
    content = (await front.post({**ASK, "stream": True}, path=MESSAGES)).content
    last = content.removesuffix(b"\n\n").split(b"\n\n")[-1]
    told = checked_error(last.partition(b"data: ")[2])
    assert ("overloaded_error", True) == (told["type"], told["message"].startswith("too much"))
    assert b'"text":"b"' not in content
    assert b"10.0.0.1" not in content
    assert 1 == content.count(b"event: error")


CACHED = {"input_tokens": 317, "cache_creation_input_tokens": 4425, "cache_read_input_tokens": 100}


@pytest.mark.parametrize("stream", [True, False])
async def test_cache_tokens_are_counted_once(gateway_over: Any, stream: bool) -> None:
    """To OpenAI's clients the prompt is the sum of all three; Anthropic's see what Anthropic said; one ledger."""
    usage = Usage(prompt_tokens=4842, output_tokens=9, cached_tokens=100, cache_write_tokens=4425)
    script = AnthropicScript(usage=usage)

    async def respond(request: Any, conversation: Any) -> None:
        if request.json.get("stream"):
            await conversation.stream(script.opened(), script.text("a"), script.ended(), script.done())
        else:
            await conversation.answer(script.whole("a"))

    front, _ = await gateway_over(respond, use="anthropic")
    own = await front.post({**ASK, "stream": stream}, path=MESSAGES)
    counts = checked_events(own.content)[-2]["usage"] if stream else checked_message(own.content)["usage"]
    assert {**CACHED, "output_tokens": 9} == counts
    options = {"stream_options": {"include_usage": True}} if stream else {}
    chat = await front.post({"model": "m", "messages": ASK["messages"], "stream": stream, **options})
    told = json.loads(chat.content.split(b"data: ")[-2] if stream else chat.content)["usage"]
    assert (4842, 9, {"cached_tokens": 100, "cache_write_tokens": 4425}) == (
        told["prompt_tokens"],
        told["completion_tokens"],
        told["prompt_tokens_details"],
    )
    for row in await front.rows():
        attempt = row["attempts_made"][0]
        assert (4842, 9, 100) == (attempt["prompt_tokens"], attempt["output_tokens"], attempt["cached_tokens"])


async def test_cached_tokens_of_a_chat_are_no_input(gateway_over: Any) -> None:
    """Anthropic's clients add the three up themselves."""
    writer = StreamWriter(Operation.CHAT, "id", "m", 1)
    usage = Usage(prompt_tokens=50, output_tokens=2, cached_tokens=40)

    async def respond(_: Any, conversation: Any) -> None:
        frames = (writer.text(0, "a"), writer.finish(0, "stop"), writer.usage(usage), writer.done())
        await conversation.stream(*frames)

    front, upstream = await gateway_over(respond)
    events = checked_events((await front.post({**ASK, "stream": True}, path=MESSAGES)).content)
    counts = events[-2]["usage"]
    assert (10, 40, 2) == (counts["input_tokens"], counts["cache_read_input_tokens"], counts["output_tokens"])
    assert {"include_usage": True} == upstream.requests[0].json["stream_options"]


async def test_the_clients_own_bytes_go_up(gateway_over: Any) -> None:
    """With the model's name replaced, the version and betas of the client beside ours, and no other header of its."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.answer(AnthropicScript().whole("a"))

    fields = {"betas": ["ours-1"], "models": ["real"]}
    policy = {"routes": {"all": {"models": ["*"], "targets": ["up/real"]}}}
    front, upstream = await gateway_over(respond, use="anthropic", policy=policy, **fields)
    future = {"context_management": {"edits": [{"type": "new"}]}, "output_config": {"effort": "high"}, "z": 1.50}
    body = {"model": "alias", **{name: ASK[name] for name in ("max_tokens", "messages")}, **future}
    headers = {"anthropic-version": "2026-10-21", "anthropic-beta": "theirs-1, theirs-2", "x-secret": "s"}
    response = await front.post(body, path=f"{MESSAGES}?beta=true", headers=headers)
    assert 200 == response.status_code
    (request,) = upstream.requests
    sent = dict(request.headers)
    assert {**body, "model": "real"} == request.json
    assert ("/v1/messages", "2026-10-21", "ours-1,theirs-1,theirs-2") == (
        request.path,
        sent["anthropic-version"],
        sent["anthropic-beta"],
    )
    assert "x-secret" not in sent


PATHS = {"claude": MESSAGES, "open": "/v1/chat/completions"}


@pytest.mark.parametrize("path", PATHS.values())
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("first", PATHS)
async def test_another_kind_of_provider_takes_over(
    serve: Any, start_gateway: Any, path: str, stream: bool, first: str
) -> None:
    """Before the first visible byte: one is overloaded, a provider of the other format answers the same client."""

    async def respond(request: Any, conversation: Any) -> None:
        script = SCRIPTS["anthropic" if request.path == MESSAGES else "openai_compatible"]
        if request.path == PATHS[first]:
            error = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
            await conversation.answer(error, status=529)
        elif request.json.get("stream"):
            await conversation.stream(script.opened(), script.text("hello"), script.ended(), script.done())
        else:
            await conversation.answer(script.whole("hello"))

    async with serve(respond) as upstream:
        kinds = {"claude": "anthropic", "open": "openai_compatible"}
        backends = {
            name: {"use": kind, "base_url": upstream.url, "models": {"m": {"price": price(1 if name == first else 2)}}}
            for name, kind in kinds.items()
        }
        routes = {"all": {"models": ["*"], "targets": list(backends), "cost": ["money"]}}
        front = await start_gateway({"backends": backends, "routes": routes})
        response = await front.post({**ASK, "stream": stream}, path=path)
    (second,) = PATHS.keys() - {first}
    assert (200, "2", second) == (
        response.status_code,
        response.headers["x-headrace-attempts"],
        response.headers["x-headrace-backend"],
    )
    assert b"hello" in response.content


def price(usd: int) -> dict[str, int]:
    """What decides who is asked first."""
    return {"input_usd_per_mtok": usd, "output_usd_per_mtok": usd}


async def test_what_a_route_may_drop_is_told(gateway_over: Any) -> None:
    """Refused by name where nobody said so; where the route says so, the answer names what was lost."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.answer(AnthropicScript().whole("a"))

    chat = {"model": "m", "messages": ASK["messages"], "seed": 7, "temperature": 0}
    front, upstream = await gateway_over(respond, use="anthropic")
    refused = await front.post(chat)
    assert (400, "seed") == (refused.status_code, refused.json()["error"]["param"])
    filters = ["healthy", {"use": "capable", "may_drop": ["seed"]}]
    policy = {"routes": {"all": {"models": ["*"], "targets": ["up"], "filter": filters}}}
    front, upstream = await gateway_over(respond, use="anthropic", policy=policy)
    served = await front.post(chat)
    assert (200, "seed") == (served.status_code, served.headers["x-headrace-dropped"])
    assert (0, False) == (upstream.requests[0].json["temperature"], "seed" in upstream.requests[0].json)


@pytest.mark.parametrize(("field", "value"), [("container", "c"), ("mcp_servers", [{"url": "x"}]), ("speed", "fast")])
async def test_what_only_anthropic_has_is_refused_elsewhere(gateway_over: Any, field: str, value: Any) -> None:
    """A 400 that names the client's field; nobody was asked in vain."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.answer(OpenAIScript(Operation.CHAT).whole("a"))

    front, upstream = await gateway_over(respond)
    response = await front.post({**ASK, field: value}, path=MESSAGES)
    error = checked_error(response.content)
    assert (400, "invalid_request_error", field) == (response.status_code, error["type"], error["param"])
    assert [] == upstream.requests
