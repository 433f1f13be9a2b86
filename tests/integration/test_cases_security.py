"""Who may call, what a body may do, and what crosses from one side to the other."""

import gzip
import tracemalloc
import zlib
from typing import Any

import msgspec
import pytest
import zstandard
from starlette.routing import Route

from gateway.endpoints import OPERATIONS
from gateway.pages.open_paths import PROBES

KEY = "sk-acme-0123456789"
ENDPOINTS = ["/v1/chat/completions", "/v1/completions"]
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
WHOLE = msgspec.json.encode(
    {"choices": [{"index": 0, "text": "ok", "message": {"content": "ok"}, "finish_reason": "stop"}]}
)

TRANSPORT = ["api_base", "base_url", "api_key", "model_list", "extra_headers", "extra_body", "fallbacks", "proxy"]


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_a_body_cannot_name_its_upstream(serve: Any, gateway_over: Any, path: str) -> None:
    """Addresses and keys in a body are refused at its top and mean nothing inside; nobody connects there."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.answer(WHOLE)

    front, upstream = await gateway_over(respond)
    async with serve(respond) as attacker:
        for name in TRANSPORT:
            response = await front.post({name: attacker.url}, path=path)
            assert (400, name) == (response.status_code, response.json()["error"]["param"])
        nested = dict.fromkeys(TRANSPORT, attacker.url)
        inside = {"metadata": nested, "unknown": nested, "response_format": {"type": "text", **nested}}
        headers = {"x-upstream": attacker.url, "x-api-base": attacker.url, "host": "evil.example"}
        response = await front.post(
            inside, path=f"{path}?api_base={attacker.url}&base_url={attacker.url}", headers=headers
        )
        assert 200 == response.status_code
        assert 0 == attacker.connections
    (request,) = upstream.requests
    assert inside == {name: request.json[name] for name in inside}
    assert "?" not in request.path


async def _routes(front: Any) -> list[tuple[str, str]]:
    """Every route of the application, found in its own tables, with a method that it takes."""
    routes = [*front.gateway.asgi._site.routes, *(await front.gateway.asgi._annex.wing()).asgi.routes]
    assert all(isinstance(route, Route) for route in routes), "a new kind of route: this test cannot see it"
    found = [(method, route.path) for route in routes for method in sorted(route.methods)]
    found += [("POST", path) for path in OPERATIONS]
    assert len(found) >= 10
    return [(method, path.replace("{model:path}", "fake")) for method, path in found]


FORGED = {"x-forwarded-for": "127.0.0.1", "forwarded": "for=127.0.0.1", "x-real-ip": "127.0.0.1"}


@pytest.mark.parametrize("headers", [{}, FORGED], ids=["no key", "forged origin"])
async def test_every_route_but_the_probes_needs_a_key(start_gateway: Any, headers: dict[str, str]) -> None:
    """Each route that exists, today and tomorrow, answers 401 without a key, whatever origin is claimed."""
    front = await start_gateway({"locked": True})
    for method, path in await _routes(front):
        response = await front.http.request(method, path, headers=headers, content=b"{}" if method == "POST" else None)
        expected = path in PROBES
        assert expected is (response.status_code != 401), f"{method} {path} answered {response.status_code}"
    unknown = await front.http.get("/v1/nowhere", headers=headers)
    assert (401, "Bearer") == (unknown.status_code, unknown.headers["www-authenticate"])


GOOD = [
    f"authorization: Bearer {KEY}",
    f"authorization: bearer {KEY}",
    f"authorization: BEARER   {KEY} ",
    f"x-api-key: {KEY}",
    f"authorization: Bearer {KEY}\r\nx-api-key: {KEY}",
]
BAD = [
    f"authorization: Basic {KEY}",
    "authorization: Bearer ",
    "authorization:",
    f"authorization: Bearer {KEY}\r\nauthorization: Bearer other",
    f"authorization: Bearer {KEY}\r\nx-api-key: other",
    f"authorization: Bearer {KEY}\r\nauthorization: Basic {KEY}",
    f"authorization: Bearer {KEY}x",
    f"authorization: Bearer {KEY[:-1]}",
    "authorization: Bearer schl\xfcssel",
    "authorization: Bearer \xff\xfe",
    "x-api-key: \xe4\xbd\xa0",
]


@pytest.mark.parametrize("header", GOOD)
async def test_the_usual_ways_to_send_a_key(start_gateway: Any, header: str) -> None:
    """The scheme's case does not matter, and both headers may say the same."""
    client = await (await start_gateway({"locked": True})).raw()
    await client.post(msgspec.json.encode(CHAT), headers=f"{header}\r\n")
    assert 200 == (await client.answer()).status


@pytest.mark.parametrize("header", BAD)
async def test_other_credentials_are_refused(start_gateway: Any, header: str) -> None:
    """A wrong key, two that differ, or bytes that are no text are a 401, on the ledger without a tenant."""
    front = await start_gateway({"locked": True})
    client = await front.raw()
    await client.post(msgspec.json.encode(CHAT), headers=f"{header}\r\n")
    answer = await client.answer()
    assert (401, "invalid_api_key") == (answer.status, answer.json["error"]["code"])
    assert ("rejected", "") == ((row := await front.row())["status"], row["tenant"])


async def test_a_key_of_a_megabyte(start_gateway: Any) -> None:
    """An endless key is a 431."""
    front = await start_gateway({"locked": True})
    client = await front.raw()
    await client.post(b"{}", headers=f"authorization: Bearer {'k' * 2**20}\r\n")
    assert 431 == (await client.answer()).status


BODY = msgspec.json.encode({**CHAT, "messages": [{"role": "user", "content": "hi " * 50}]})
MiB = 2**20
CODED = {
    "gzip": gzip.compress(BODY),
    "x-gzip": gzip.compress(BODY),
    "deflate": zlib.compress(BODY),
    "zstd": zstandard.compress(BODY),
    "identity": BODY,
}


@pytest.mark.parametrize("coding", CODED)
async def test_compressed_bodies_are_read(running: Any, coding: str) -> None:
    """Each supported coding works, with a length and without one."""
    client = await running.raw()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-encoding: {coding}\r\n"
    body = CODED[coding]
    await client.send(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    assert 200 == (await client.answer()).status
    await client.send(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
    await client.send(*(b"1\r\n%c\r\n" % byte for byte in body), b"0\r\n\r\n")
    assert 200 == (await client.answer()).status


WRONGLY_CODED = {
    "br": ("br", b"\x0b\x02\x80hello\x03", 415),
    "unknown": ("made-up", BODY, 415),
    "nested": ("gzip, gzip", gzip.compress(gzip.compress(BODY)), 415),
    "truncated gzip": ("gzip", gzip.compress(BODY)[:-5], 400),
    "truncated zstd": ("zstd", zstandard.compress(BODY)[:-5], 400),
    "trailing garbage": ("gzip", gzip.compress(BODY) + b"garbage", 400),
    "trailing zstd": ("zstd", zstandard.compress(BODY) + b"garbage", 400),
    "plain text called gzip": ("gzip", BODY, 400),
    "gzip bomb": ("gzip", gzip.compress(bytes(64 * MiB)), 413),
    "zstd bomb": ("zstd", zstandard.compress(bytes(64 * MiB)), 413),
    "deflate bomb": ("deflate", zlib.compress(bytes(64 * MiB)), 413),
}


@pytest.mark.parametrize("name", WRONGLY_CODED)
async def test_wrongly_compressed_bodies_are_refused_in_little_memory(start_gateway: Any, name: str) -> None:
    """Unknown codings are 415, broken bodies 400, bombs 413, and none takes more than the limit and a block."""
    coding, body, status = WRONGLY_CODED[name]
    front = await start_gateway(max_body_bytes=MiB)
    tracemalloc.start()
    try:
        response = await front.post(body, headers={"content-encoding": coding})
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert status == response.status_code
    assert peak_bytes < 3 * MiB


async def test_a_bomb_without_a_key_is_not_even_read(start_gateway: Any) -> None:
    """The key is checked first."""
    front = await start_gateway({"locked": True}, max_body_bytes=MiB)
    response = await front.post(CODED["gzip"], headers={"content-encoding": "br"})
    assert 401 == response.status_code


async def test_identity_comes_from_the_key_alone(start_gateway: Any) -> None:
    """Whatever a request says of itself, the ledger names the key's tenant; ``user`` is kept as a mere label."""
    front = await start_gateway({"locked": True})
    claims = {"user": "globex", "metadata": {"tenant": "globex", "user_api_key_team_id": "globex"}}
    headers = {"authorization": f"Bearer {KEY}", "x-tenant": "globex", "openai-organization": "globex"}
    for path in ENDPOINTS:
        response = await front.post(claims, path=f"{path}?tenant=globex", headers=headers)
        assert 200 == response.status_code
    assert [("acme", "globex")] * 2 == [(row["tenant"], row["unverified_user"]) for row in await front.rows()]
    assert not any("globex" in series for series in await front.series())


async def test_a_rotating_user_gets_no_further(start_gateway: Any, eventually: Any) -> None:
    """Another ``user`` a call does not loosen the limit of the key."""
    admit = {"use": "fixed_concurrency", "limit": 1, "queue": 0}
    backends = {"b": {"use": "fake", "fail": [{"kind": "stall"}], "repeat": True}}
    front = await start_gateway({"backends": backends, "defaults": {"admit": admit}})
    async with front.stream({"user": "first"}):
        assert [503] * 3 == [(await front.post({"user": f"u{number}"})).status_code for number in range(3)]
    await eventually(lambda: front.gateway.pipeline.running == 0)
