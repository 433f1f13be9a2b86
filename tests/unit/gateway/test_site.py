import hashlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

KEY = "sk-tenant"
POLICY = """
    backends:
      a: {use: fake, models: [small, meta/large]}
    routes:
      r: {models: [small, meta/large], targets: [a]}
      any: {models: ["gpt-*"], targets: [a/small]}
"""
KEYS = f"tenants: {{acme: {{keys_sha256: [{hashlib.sha256(KEY.encode()).hexdigest()}]}}}}"


@pytest.fixture
async def client(site: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway without keys."""
    async with site.running(POLICY) as gateway, _client(gateway) as client:
        yield client


@pytest.fixture
async def stranger(site: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a key, of a gateway that wants one."""
    async with site.running(f"{POLICY}\n    {KEYS}") as gateway, _client(gateway) as client:
        yield client


def _client(gateway: Any) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=gateway.asgi, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://gate")


async def test_models_are_listed_as_clients_expect_them(client: httpx.AsyncClient) -> None:
    """OpenAI's list: what routes name, owned by the backend that is tried first."""
    answer = (await client.get("/v1/models")).json()
    assert ("list", ["small", "meta/large"]) == (answer["object"], [card["id"] for card in answer["data"]])
    assert {"id", "object", "created", "owned_by"} == answer["data"][0].keys()
    assert ("model", "a") == (answer["data"][0]["object"], answer["data"][0]["owned_by"])


async def test_one_model_is_shown_by_its_name(client: httpx.AsyncClient) -> None:
    """Slashes included; what is not listed is not found, even where a pattern would answer it."""
    assert "meta/large" == (await client.get("/v1/models/meta/large")).json()["id"]
    missing = await client.get("/v1/models/gpt-9")
    assert (404, "model_not_found", "model") == (
        missing.status_code,
        missing.json()["error"]["code"],
        missing.json()["error"]["param"],
    )


async def test_probes_answer_everybody(stranger: httpx.AsyncClient) -> None:
    """Load balancers have no key: home, liveness and readiness are open, by GET and by HEAD."""
    for path in ("/", "/healthz", "/readyz"):
        assert 200 == (await stranger.get(path)).status_code
        assert 200 == (await stranger.head(path)).status_code


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"),
        ("GET", "/v1/models/small"),
        ("GET", "/metrics"),
        ("GET", "/v1/chat/completions"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/completions"),
        ("GET", "/no/such/route"),
        ("GET", "/healthz/"),
        ("GET", "/healthz/more"),
        ("POST", "/v1/models"),
        ("OPTIONS", "/v1/models"),
    ],
)
async def test_everything_else_wants_a_key(stranger: httpx.AsyncClient, method: str, path: str) -> None:
    """By default closed, also what does not exist, whatever a forwarding header says."""
    forged = {"x-forwarded-for": "127.0.0.1", "forwarded": "for=127.0.0.1"}
    refused = await stranger.request(method, path, headers=forged)
    assert (401, "invalid_api_key", "Bearer") == (
        refused.status_code,
        refused.json()["error"]["code"],
        refused.headers["www-authenticate"],
    )
    allowed = await stranger.request(method, path, headers={"authorization": f"Bearer {KEY}"})
    assert 401 != allowed.status_code


async def test_readiness_fails_in_the_status_too(site: Any) -> None:
    """A probe looks at the status alone; people find the reasons beside it."""
    async with site.running(POLICY) as gateway, _client(gateway) as client:
        await gateway.pipeline.drain(0)
        answer = await client.get("/readyz")
        assert (503, {"ready": False, "backends": {"a": "up"}}) == (answer.status_code, answer.json())
        assert 200 == (await client.get("/healthz")).status_code


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("DELETE", "/v1/completions", 405, "method_not_allowed"),
        ("POST", "/v1/models", 405, "method_not_allowed"),
        ("POST", "/healthz", 405, "method_not_allowed"),
        ("GET", "/v1/embeddings", 405, "method_not_allowed"),
        ("GET", "/v1/assistants", 404, "not_found"),
        ("POST", "/v1/chat/completions/", 404, "not_found"),
    ],
)
async def test_what_does_not_exist_is_said_in_the_usual_envelope(
    client: httpx.AsyncClient, method: str, path: str, status: int, code: str
) -> None:
    """One shape for every error, with an id to ask about."""
    answer = await client.request(method, path)
    assert (status, code) == (answer.status_code, answer.json()["error"]["code"])
    assert "application/json" == answer.headers["content-type"]
    assert answer.headers["x-request-id"].startswith("req_")
    assert path not in answer.text
    assert ("/openapi.json" in answer.text) == (status == 404)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("GET", "/v1/tasks/a/outcome", "POST"), ("PUT", "/v1/tasks/a", "GET, HEAD"), ("POST", "/v1/models", "GET, HEAD")],
)
async def test_who_asks_in_another_way_is_told_the_right_one(
    client: httpx.AsyncClient, method: str, path: str, allowed: str
) -> None:
    """In words and in the header."""
    answer = await client.request(method, path)
    assert (405, allowed) == (answer.status_code, answer.headers["allow"])
    assert f"this route takes {allowed}" == answer.json()["error"]["message"]


async def test_a_bug_is_a_500_without_its_words(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What broke is for the log."""
    async with site.running(POLICY) as gateway, _client(gateway) as client:

        def broken(_: Any) -> Any:
            raise KeyError("words-of-the-exception")

        monkeypatch.setattr("gateway.rules.world.World.models", broken)
        answer = await client.get("/v1/models")
        assert (500, "internal_error") == (answer.status_code, answer.json()["error"]["code"])
        assert "words-of-the-exception" not in answer.text


async def test_large_headers_are_refused_on_every_guarded_route(client: httpx.AsyncClient) -> None:
    """The same limit as for inference."""
    answer = await client.get("/v1/models", headers={"x-large": "x" * 70_000})
    assert (431, "headers_too_large") == (answer.status_code, answer.json()["error"]["code"])


async def test_models_say_how_their_providers_compute_them(site: Any) -> None:
    """An extension field, with each provider's card and its evidence; those without one have none."""
    card = "{precision: fp8, speculation: eagle3, equivalence: measured, evidence: 3 of 200 differ}"
    policy = f"backends: {{a: {{use: fake, models: {{m: {{card: {card}}}, n: null}}}}, b: {{use: fake, models: [m]}}}}"
    async with site.running(policy) as gateway, _client(gateway) as client:
        cards = {card["id"]: card for card in (await client.get("/v1/models")).json()["data"]}
        stated = {
            "precision": "fp8",
            "speculation": "eagle3",
            "equivalence": "measured",
            "evidence": "3 of 200 differ",
        }
        assert {"providers": [{"backend": "a", "model": "m", **stated}]} == cards["m"]["headrace"]
        assert "headrace" not in cards["n"]
        assert cards["m"] == (await client.get("/v1/models/m")).json()
