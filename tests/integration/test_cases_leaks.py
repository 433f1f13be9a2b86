"""What must not come out: secrets and prompts in logs, metrics, spans, ledger and replies; headers that cross."""

import logging
import re
import signal
import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

PROVIDER_KEY = "sk-provider-canary-5512"
CLIENT_KEY = "sk-client-canary-9981"
ANSWER = {"choices": [{"index": 0, "message": {"content": "answer-marker"}, "finish_reason": "stop"}]}
MARKERS = {
    "system": "system-marker",
    "user": "user-marker",
    "arguments": "arguments-marker",
    "result": "result-marker",
    "image": "image-marker",
    "tool": "tool-marker",
    "answer": "answer-marker",
    "stop": "stop-marker",
}
CONVERSATION = [
    {"role": "system", "content": MARKERS["system"]},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": MARKERS["user"]},
            {"type": "image_url", "image_url": {"url": f"https://example.com/{MARKERS['image']}"}},
        ],
    },
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": f'"{MARKERS["arguments"]}"'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c", "content": MARKERS["result"]},
]
TOOLS = [{"type": "function", "function": {"name": "f", "description": MARKERS["tool"]}}]


async def _answer(_: Any, conversation: Any) -> None:
    await conversation.answer(msgspec.json.encode(ANSWER))


async def _quote_the_key(request: Any, conversation: Any) -> None:
    given = dict(request.headers)["authorization"]
    body = {"error": {"message": f"bad key {given}", "type": given, "code": given, "param": given}}
    await conversation.answer(msgspec.json.encode(body), status=int(request.json["seed"]))


async def _quote_the_key_in_a_stream(request: Any, conversation: Any) -> None:
    given = dict(request.headers)["authorization"]
    word = {"choices": [{"index": 0, "delta": {"content": "Hi"}}]}
    events = (word, {"error": {"message": f"bad key {given}", "code": given, "type": given}})
    await conversation.stream(*(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events))


async def _quote_the_key_in_an_answer(request: Any, conversation: Any) -> None:
    await conversation.answer(msgspec.json.encode({"error": {"message": dict(request.headers)["authorization"]}}))


async def _quote_the_prompt(request: Any, conversation: Any) -> None:
    body = msgspec.json.encode({"error": {"message": f"I dislike {request.body.decode()}"}})
    await conversation.answer(body, status=request.json["seed"])


async def _break(_: Any, conversation: Any) -> None:
    conversation.reset()


@pytest.fixture
async def everything_said(collector: Any, caplog: Any, tmp_path: Any, monkeypatch: Any) -> Any:
    """Starts a gateway and gives back all that it says of itself: its log, metrics, spans, and its ledger's bytes."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("PROVIDER_KEY", PROVIDER_KEY)

    async def collect(front: Any) -> str:
        metrics = repr(await front.series())
        assert await front.rows()
        await front.stop()
        await collector.until(lambda: collector.spans)
        files = [path.read_bytes() for path in tmp_path.rglob("ledger*")]
        assert files
        # The clients' own logs are theirs; so are the frames of tasks, which asyncio writes only when asked to debug.
        records = [r for r in caplog.records if r.name.partition(".")[0] not in {"httpx", "httpcore", "openai"}]
        log = "".join(f"{record.getMessage()} {record.exc_info} {record.args}" for record in records)
        return log + metrics + repr(collector.spans) + b"".join(files).decode("latin-1")

    return collect


@pytest.mark.parametrize("respond", [_answer, _quote_the_prompt, _break], ids=lambda f: f.__name__)
@pytest.mark.parametrize("status", [400, 500])
async def test_no_words_of_the_conversation_are_kept(
    gateway_over: Any, everything_said: Any, respond: Any, status: int
) -> None:
    """Prompts, tool results, images and answers appear in no log, metric, span or row, even when quoted back."""
    front, _ = await gateway_over(respond)
    body = {"messages": CONVERSATION, "tools": TOOLS, "seed": status, "stop": [MARKERS["stop"]]}
    await front.post(body)
    await front.post({**body, "temperature": MARKERS["user"]})
    said = await everything_said(front)
    assert [] == [marker for marker in MARKERS.values() if marker in said]


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500, 302])
async def test_our_key_is_in_no_reply_and_no_record(gateway_over: Any, everything_said: Any, status: int) -> None:
    """An upstream that quotes our key back at us does not make it public, and neither is the client's kept."""
    front, upstream = await gateway_over(_quote_the_key, api_key_env="PROVIDER_KEY")
    headers = {"authorization": f"Bearer {CLIENT_KEY}"}
    response = await front.post({"seed": status}, headers=headers)
    assert response.status_code >= 400
    assert f"Bearer {PROVIDER_KEY}" == dict(upstream.requests[0].headers)["authorization"]
    said = response.text + repr(response.headers.raw) + await everything_said(front)
    assert PROVIDER_KEY not in said
    assert CLIENT_KEY not in said


@pytest.mark.parametrize("respond", [_quote_the_key_in_a_stream, _quote_the_key_in_an_answer])
async def test_our_key_is_not_in_an_answers_error(gateway_over: Any, everything_said: Any, respond: Any) -> None:
    """The same where the error comes inside a stream, or as an answer with status 200."""
    front, _ = await gateway_over(respond, api_key_env="PROVIDER_KEY")
    content = (await front.post({"stream": respond is _quote_the_key_in_a_stream})).text
    assert "error" in content
    assert PROVIDER_KEY not in content + await everything_said(front)


async def test_refused_keys_are_not_kept(start_gateway: Any, everything_said: Any) -> None:
    """A wrong key, and its hash, are in no record and no reply."""
    front = await start_gateway({"locked": True})
    response = await front.post(headers={"authorization": f"Bearer {CLIENT_KEY}"})
    assert 401 == response.status_code
    said = response.text + await everything_said(front)
    assert CLIENT_KEY not in said


async def test_the_log_at_its_most_talkative_tells_no_secret_and_cannot_be_forged(
    serve: Any, start_process: Any
) -> None:
    """At debug level too neither side's key is logged, and no name that a client chose begins a line."""
    async with serve(_quote_the_key) as upstream:
        backend = {"use": "openai_compatible", "base_url": upstream.url, "api_key_env": "PROVIDER_KEY"}
        served = await start_process(
            {"backends": {"up": backend}},
            PROVIDER_KEY=PROVIDER_KEY,
            HEADRACE_LOG_LEVEL="debug",
            HEADRACE_ACCESS_LOG="true",
        )
        client = await served.connect()
        for status in (400, 401, 429, 500):
            body = {"model": f"m\n2026-01-01 ERROR forged\u2028{status}", "messages": CONVERSATION, "seed": status}
            await client.post(msgspec.json.encode(body), headers=f"authorization: Bearer {CLIENT_KEY}\r\n")
            assert (await client.answer()).status >= 400
        await client.send(b"GARBAGE " + CLIENT_KEY.encode() + b"\r\n\r\n")
        assert 400 == (await client.answer()).status
    served.signal(signal.SIGTERM)
    assert 0 == await served.exit_code()
    log = "".join(served.log)
    assert log.count("forged") >= 3
    assert all(re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z [A-Z]+ [\w.]+: ", line) for line in log.splitlines())
    assert [] == [word for word in (PROVIDER_KEY, CLIENT_KEY, *MARKERS.values()) if word in log]


async def test_a_plugins_bug_tells_nothing(start_gateway: Any, everything_said: Any, monkeypatch: Any) -> None:
    """An exception that quotes the prompt is a 500 and an entry; its text is told to nobody."""

    @dataclass(frozen=True, kw_only=True)
    class Broken:
        """Raises."""

        def order(self, ctx: Any, bills: Any) -> Any:
            """Quotes what it was given."""
            raise ValueError(f"{ctx.request.messages} {bills}")

    monkeypatch.setitem(sys.modules, "acme_rank", SimpleNamespace(Broken=Broken))
    front = await start_gateway({"defaults": {"rank": "acme_rank:Broken"}})
    response = await front.post({"messages": CONVERSATION})
    assert (500, "internal_error") == (response.status_code, response.json()["error"]["code"])
    assert "bug" == (await front.row())["status"]
    said = response.text + await everything_said(front)
    assert "ValueError" in said
    assert [] == [marker for marker in MARKERS.values() if marker in said]


async def test_only_our_headers_go_up_and_only_ours_come_down(gateway_over: Any) -> None:
    """Neither side's headers cross: no credentials, cookies or hops up, no redirects or cookies down."""

    async def respond(_: Any, conversation: Any) -> None:
        headers = {
            "location": "http://x/",
            "set-cookie": "a=b",
            "server": "secret/1",
            "x-internal": "1",
            "connection": "x-hop",
        }
        await conversation.answer(msgspec.json.encode(ANSWER), headers={**headers, "x-hop": "1", "x-latin": "\xff"})

    front, upstream = await gateway_over(respond)
    client = await front.raw()
    headers = (
        f"authorization: Bearer {CLIENT_KEY}\r\ncookie: a=b\r\nx-headrace-tenant: root\r\nx-internal: 1\r\n"
        "connection: keep-alive, authorization\r\nte: trailers\r\nproxy-authorization: Basic eA==\r\nx-api-key: k\r\n"
    )
    await client.post(b'{"model":"m","messages":[{"role":"user","content":"hi"}]}', headers=headers)
    answer = await client.answer()
    assert 200 == answer.status
    ours = {"content-type", "content-length", "date", "x-request-id"}
    assert all(name in ours or name.startswith("x-headrace-") for name, _ in answer.headers)
    went_up = {name for name, _ in upstream.requests[0].headers}
    assert went_up <= {
        "host",
        "accept",
        "accept-encoding",
        "user-agent",
        "content-type",
        "content-length",
        "connection",
    }
    assert CLIENT_KEY not in repr(upstream.requests[0])


@pytest.mark.parametrize(
    ("name", "shown"), [("模型", "%E6%A8%A1%E5%9E%8B"), ("a\r\nset-cookie: x", None), ("é", "%C3%A9")]
)
async def test_a_name_that_no_header_can_hold_costs_no_answer(gateway_over: Any, name: str, shown: str | None) -> None:
    """Names in other scripts, and names with line ends, are percent-encoded in our headers."""
    front, upstream = await gateway_over(_answer)
    response = await front.post({"model": name})
    assert 200 == response.status_code
    assert name == upstream.requests[0].json["model"]
    assert "set-cookie" not in response.headers
    assert (shown or "a%0D%0Aset-cookie: x") == response.headers["x-headrace-model"]


SMUGGLED = {
    "both lengths": "content-length: 5\r\ntransfer-encoding: chunked\r\n",
    "two lengths": "content-length: 5\r\ncontent-length: 6\r\n",
    "not chunked at last": "transfer-encoding: chunked, identity\r\n",
    "a length with a sign": "content-length: +5\r\n",
    "a space before the colon": "content-length : 5\r\n",
    "a folded line": "content-length: 5\r\n x: y\r\n",
}


@pytest.mark.parametrize("name", SMUGGLED)
async def test_ambiguous_framing_is_refused(running: Any, name: str) -> None:
    """A request whose end two readers could see in different places is a 400, and the connection ends."""
    client = await running.raw()
    await client.send(f"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\n{SMUGGLED[name]}\r\n".encode())
    await client.send(b"0\r\n\r\nGET /healthz HTTP/1.1\r\nhost: h\r\n\r\n")
    answer = await client.answer()
    assert 400 == answer.status
    assert b"" == await client.until_closed()
    assert 0 == running.backend("made-up").open_calls
