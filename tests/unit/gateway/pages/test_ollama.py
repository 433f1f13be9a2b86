"""What Ollama's clients ask for besides inference."""

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

KEY = "sk-tenant"
POLICY = """
    backends:
      a:
        use: openai_compatible
        base_url: http://a.example/v1
        models:
          small: {context_tokens: 8192, capabilities: [tools], card: {precision: q4_k_m}}
          large: {context_tokens: 131072}
      b: {use: openai_compatible, base_url: http://b.example/v1, operations: [embedding], models: [vectors]}
    routes:
      small: {models: [small], targets: [a/small]}
      any: {models: [large, "gpt-*"], targets: [a/small, a/large]}
      vectors: {models: [vectors], targets: [b]}
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


async def test_models_are_listed_as_ollama_does(client: httpx.AsyncClient) -> None:
    """By the names that routes have; each with a digest, of which clients show the beginning."""
    models = (await client.get("/api/tags")).json()["models"]
    assert ["small", "large", "vectors"] == [model["name"] for model in models]
    assert {"name", "model", "modified_at", "size", "digest", "details"} == models[0].keys()
    assert (64, "Q4_K_M") == (len(models[0]["digest"]), models[0]["details"]["quantization_level"])
    assert 200 == (await client.head("/api/tags")).status_code


async def test_models_that_somebody_serves_are_as_good_as_loaded(client: httpx.AsyncClient) -> None:
    """For good."""
    models = (await client.get("/api/ps")).json()["models"]
    assert [8192, 131072, 0] == [model["context_length"] for model in models]
    assert {"9999-12-31T23:59:59Z"} == {model["expires_at"] for model in models}


@pytest.mark.parametrize(
    ("asked", "window", "can"),
    [
        ("small", 8192, ["completion", "tools"]),
        ("small:latest", 8192, ["completion", "tools"]),
        ("gpt-9", 131072, ["completion", "audio", "insert", "tools", "vision"]),
        ("vectors", None, ["embedding", "audio", "insert", "tools", "vision"]),
    ],
)
async def test_a_model_is_shown(client: httpx.AsyncClient, asked: str, window: int | None, can: list[str]) -> None:
    """Its window under its architecture's name, and what it can do, where somebody says; else all of it."""
    shown = (await client.post("/api/show", json={"model": asked})).json()
    info = shown["model_info"]
    assert ("headrace", window) == (info["general.architecture"], info.get("headrace.context_length"))
    assert sorted(can) == sorted(shown["capabilities"])
    assert {"details", "modified_at", "capabilities", "model_info"} == shown.keys()
    older = (await client.post("/api/show", json={"name": asked, "verbose": True})).json()
    assert shown["capabilities"] == older["capabilities"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b'{"model":"nothing"}', 404, "no route answers this model"),
        (b"{}", 400, "model is required"),
        (b'{"model":1}', 400, "model must be string or null, not integer"),
        (b"{", 400, "the request body is not valid JSON"),
        (b'{"model":"' + b"x" * 70_000 + b'"}', 413, "the body is longer than"),
    ],
)
async def test_what_cannot_be_shown_is_told_in_ollamas_words(
    client: httpx.AsyncClient, body: bytes, status: int, words: str
) -> None:
    """One field, with a sentence."""
    answer = await client.post("/api/show", content=body)
    assert (status, ["error"]) == (answer.status_code, list(answer.json()))
    assert answer.json()["error"].startswith(words)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/pull"),
        ("POST", "/api/push"),
        ("POST", "/api/create"),
        ("POST", "/api/copy"),
        ("DELETE", "/api/delete"),
        ("POST", "/api/blobs/sha256:12"),
    ],
)
async def test_models_are_not_changed_here(client: httpx.AsyncClient, method: str, path: str) -> None:
    """Whoever tries is told whose that is."""
    answer = await client.request(method, path, json={"model": "small"})
    assert 400 == answer.status_code
    assert "policy file" in answer.json()["error"]


async def test_ollamas_clients_hear_that_ollama_runs(client: httpx.AsyncClient) -> None:
    """They know it by that; all others are greeted as before, and find the words there, too."""
    for agent in ("ollama-python/0.6.1", "ollama/0.13.3 (amd64 linux)", "ollama-js/0.6.3"):
        greeting = await client.get("/", headers={"user-agent": agent})
        assert ("Ollama is running", "text/plain; charset=utf-8") == (greeting.text, greeting.headers["content-type"])
    other = (await client.get("/")).json()
    assert ("headrace", "Ollama is running") == (other["name"], other["ollama"])
    assert 200 == (await client.head("/", headers={"user-agent": "ollama/0.13.3"})).status_code


async def test_the_version_is_that_of_an_api(client: httpx.AsyncClient) -> None:
    """By which clients tell what they may ask for."""
    assert {"version": "0.13.3"} == (await client.get("/api/version")).json()


async def test_errors_under_api_are_ollamas(client: httpx.AsyncClient) -> None:
    """Unknown routes and wrong methods, too."""
    for path, status in (("/api/nothing", 404), ("/api/chat", 405), ("/api/show", 405)):
        answer = await client.get(path)
        assert (status, ["error"]) == (answer.status_code, list(answer.json()))
        assert isinstance(answer.json()["error"], str)


async def test_pages_want_a_key_where_inference_does(stranger: httpx.AsyncClient) -> None:
    """As a bearer, which is how Ollama's clients send ``OLLAMA_API_KEY``."""
    for path in ("/api/tags", "/api/version", "/api/ps"):
        refused = await stranger.get(path)
        assert (401, ["error"]) == (refused.status_code, list(refused.json()))
        assert 200 == (await stranger.get(path, headers={"authorization": f"Bearer {KEY}"})).status_code
