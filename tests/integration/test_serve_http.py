"""HTTP as clients, proxies and scanners speak it: probes, envelopes, framing, keep-alive, limits."""

import gzip
import re
from typing import Any

import httpx
import msgspec
import pytest

CHAT = b'{"model":"fake","messages":[{"role":"user","content":"hi"}]}'
STREAMED_CHAT = b'{"model":"fake","stream":true,"messages":[{"role":"user","content":"hi"}]}'
BODY_LIMIT = 4096


def _is_envelope(content: bytes) -> bool:
    error = msgspec.json.decode(content)["error"]
    return error.keys() == {"message", "type", "param", "code"} and bool(error["message"]) and bool(error["type"])


@pytest.fixture
async def small(start_gateway: Any) -> Any:
    """A gateway with tight limits."""
    return await start_gateway(
        max_body_bytes=BODY_LIMIT, max_header_bytes=2048, max_depth=8, max_messages=3, body_timeout_s=0.05
    )


async def test_served_answers_carry_our_headers(running: Any) -> None:
    """A whole answer says who served it, at what forecast, in how many tries, and carries nothing else."""
    headers = (await running.post()).headers
    assert re.fullmatch(r"req_[0-9a-f]{24}", headers["x-request-id"])
    assert ("made-up", "fake", "1") == (
        headers["x-headrace-backend"],
        headers["x-headrace-model"],
        headers["x-headrace-attempts"],
    )
    assert int(headers["x-headrace-forecast-tokens"]) > 0
    assert "x-headrace-cost-usd" not in headers, "no price is known"
    assert "server" not in headers


async def test_cost_header_where_a_price_is_known(start_gateway: Any) -> None:
    """The price of the answer is in its headers, to the last digit."""
    price = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 2}
    running = await start_gateway(
        {"backends": {"b": {"use": "fake", "tokens": 5, "models": {"fake": {"price": price}}}}}
    )
    response = await running.post({"messages": [{"role": "user", "content": "x" * 400}]})
    assert "0.00011" == response.headers["x-headrace-cost-usd"]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz"])
async def test_probes_answer_without_a_key(start_gateway: Any, method: str, path: str) -> None:
    """Probes need no key, by GET or HEAD."""
    running = await start_gateway({"locked": True})
    response = await running.http.request(method, path)
    assert 200 == response.status_code
    assert bool(response.content) is (method == "GET")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("POST", "/v1/nowhere", 404),
        ("GET", "/v1/models/nobody", 404),
        ("GET", "/v1/chat/completions", 405),
        ("DELETE", "/v1/completions", 405),
        ("POST", "/v1/models", 405),
        ("PUT", "/healthz", 405),
        ("OPTIONS", "/v1/chat/completions", 405),
        ("POST", "/v1/chat/completions/", 404),
        ("POST", "//v1/chat/completions", 404),
        ("POST", "/v1/chat/completions%00", 404),
        ("POST", "/v1/%E4%BD%A0", 404),
    ],
)
async def test_wrong_routes_and_methods_get_the_envelope(running: Any, method: str, path: str, status: int) -> None:
    """Whatever is asked for, an error is the documented envelope, with a request id."""
    client = await running.raw()
    await client.send(f"{method} {path} HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{{}}".encode())
    answer = await client.answer()
    assert status == answer.status
    assert "application/json" == answer.header("content-type")
    assert answer.header("x-request-id").startswith("req_")
    assert _is_envelope(answer.body)


async def test_websocket_upgrade_gets_an_envelope(running: Any) -> None:
    """An upgrade is not taken, and the answer is still HTTP."""
    client = await running.raw()
    await client.send(
        b"GET /v1/responses HTTP/1.1\r\nhost: h\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
        b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    answer = await client.answer()
    assert 426 == answer.status
    assert _is_envelope(answer.body)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GARBAGE\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: ten\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\nbad header\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\nx: a\x00b\r\n\r\n",
    ],
)
async def test_what_is_no_http_gets_an_envelope_and_the_end(running: Any, request_bytes: bytes) -> None:
    """What cannot be parsed is a 400 in the documented envelope, and the connection is closed."""
    client = await running.raw()
    await client.send(request_bytes)
    answer = await client.answer()
    assert 400 == answer.status
    assert "close" == answer.header("connection")
    assert _is_envelope(answer.body)
    assert b"" == await client.until_closed()


async def test_one_connection_serves_many_requests(running: Any) -> None:
    """A connection is kept after whole answers, streams and errors alike."""
    client = await running.raw()
    statuses = []
    for body in (CHAT, STREAMED_CHAT, b"no JSON", CHAT):
        await client.post(body)
        statuses.append((await client.answer()).status)
    assert [200, 200, 400, 200] == statuses


async def test_pipelined_requests_are_answered_in_order(running: Any) -> None:
    """Requests sent ahead of their answers are answered one after the other."""
    client = await running.raw()
    for limit in (1, 2, 3):
        await client.post(b'{"model":"fake","max_tokens":%d,"messages":[{"role":"user","content":"hi"}]}' % limit)
    answers = [await client.answer() for _ in range(3)]
    assert [1, 2, 3] == [answer.json["usage"]["completion_tokens"] for answer in answers]


@pytest.mark.parametrize("body", [CHAT, STREAMED_CHAT])
async def test_http_1_0_client_gets_a_body_that_ends_with_the_connection(running: Any, body: bytes) -> None:
    """An HTTP/1.0 client sees no chunked coding; the answer ends by its length or with the connection."""
    client = await running.raw()
    await client.send(b"POST /v1/chat/completions HTTP/1.0\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    answer = await client.answer()
    assert 200 == answer.status
    assert "" == answer.header("transfer-encoding")
    assert answer.body.endswith(b"data: [DONE]\n\n") or answer.json["choices"]
    assert b"" == await client.until_closed()


async def test_expect_continue(running: Any) -> None:
    """A client that waits for the go-ahead gets it, then its answer."""
    client = await running.raw()
    await client.send(
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: %d\r\n\r\n"
        % len(CHAT)
    )
    assert 100 == (await client.head()).status
    await client.send(CHAT)
    assert 200 == (await client.answer()).status


async def test_a_body_in_chunks(running: Any) -> None:
    """A request body without a length, in chunks of one byte, is read like any other."""
    client = await running.raw()
    await client.send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n")
    await client.send(*[b"1\r\n%c\r\n" % byte for byte in CHAT], b"0\r\n\r\n")
    assert 200 == (await client.answer()).status


async def test_a_body_that_does_not_come_is_a_408(small: Any) -> None:
    """A body that stops on its way ends in 408 and an entry, and the connection, out of step, is closed."""
    client = await small.raw()
    await client.send(b'POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: 100\r\n\r\n{"mod')
    answer = await client.answer()
    assert (408, "request_timeout") == (answer.status, answer.json["error"]["code"])
    assert b"" == await client.until_closed()
    assert ("rejected", 408) == ((row := await small.row())["status"], row["http_status"])


async def test_a_body_over_the_limit_is_refused_by_its_length(small: Any) -> None:
    """A body that says that it is too long is refused before it is sent."""
    client = await small.raw()
    await client.send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n" % (BODY_LIMIT + 1))
    answer = await client.answer()
    assert (413, "request_too_large") == (answer.status, answer.json["error"]["code"])


async def test_a_body_over_the_limit_is_refused_on_its_way(small: Any) -> None:
    """A body without a length is refused as soon as it is too long."""
    client = await small.raw()
    await client.send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n")
    await client.send(b"%x\r\n%b\r\n" % (BODY_LIMIT + 1, b" " * (BODY_LIMIT + 1)))
    assert 413 == (await client.answer()).status


async def test_a_body_at_the_limit_is_served(small: Any) -> None:
    """The limit itself is allowed, plain or as what a coding decodes to."""
    body = CHAT + b" " * (BODY_LIMIT - len(CHAT))
    assert 200 == (await small.post(body)).status_code
    packed = gzip.compress(body)
    assert 200 == (await small.post(packed, headers={"content-encoding": "gzip"})).status_code
    assert 413 == (await small.post(gzip.compress(body + b" "), headers={"content-encoding": "gzip"})).status_code


async def test_nesting_and_message_limits(small: Any) -> None:
    """Deep nesting and too many messages are refused, naming what is wrong; the limits themselves are not."""
    deep = b'{"model":"fake","messages":[{"role":"user","content":"hi"}],"x":' + b"[" * 7 + b"]" * 7 + b"}"
    turn = {"role": "user", "content": "hi"}
    assert 200 == (await small.post(deep)).status_code
    assert 400 == (await small.post(deep.replace(b"[[]]", b"[[[]]]"))).status_code
    assert 200 == (await small.post({"messages": [turn] * 3})).status_code
    response = await small.post({"messages": [turn] * 4})
    assert (400, "messages") == (response.status_code, response.json()["error"]["param"])


async def test_header_limit(small: Any) -> None:
    """A header block over the limit is a 431, on every route, and does not wait for a body."""
    long = {"x-long": "v" * 2048}
    responses: list[httpx.Response] = [await small.post(headers=long), await small.http.get("/v1/models", headers=long)]
    assert [431, 431] == [response.status_code for response in responses]
    assert all(_is_envelope(response.content) for response in responses)


async def test_empty_body(running: Any) -> None:
    """An empty body, with or without a length, is a 400 and not a wait."""
    client = await running.raw()
    for _ in range(2):
        await client.send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\n\r\n")
        assert 400 == (await client.answer()).status
        await client.post(b"")
        assert 400 == (await client.answer()).status
