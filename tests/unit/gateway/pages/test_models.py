"""Which names a tenant is told."""

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

KEY = "sk-tenant"
POLICY = f"""
    backends:
      a: {{use: openai_compatible, base_url: http://a.example/v1, models: [little, large]}}
    routes:
      little: {{models: [small, tiny], targets: [a/little]}}
      large: {{models: [large], targets: [a/large]}}
    tenants:
      acme: {{models: [small, large], routes: [little], keys_sha256: [{hashlib.sha256(KEY.encode()).hexdigest()}]}}
"""


@pytest.fixture
async def client(site: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client whose tenant may use one name of three."""
    async with site.running(POLICY) as gateway:
        transport = httpx.ASGITransport(app=gateway.asgi, raise_app_exceptions=False)
        headers = {"authorization": f"Bearer {KEY}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://gate", headers=headers) as client:
            yield client


@pytest.mark.parametrize(
    ("path", "headers", "many", "name"),
    [
        ("/v1/models", {}, "data", "id"),
        ("/v1/models", {"anthropic-version": "2023-06-01"}, "data", "id"),
        ("/api/tags", {}, "models", "name"),
        ("/api/ps", {}, "models", "name"),
    ],
)
async def test_names_that_are_not_for_a_tenant_are_not_listed(
    client: httpx.AsyncClient, path: str, headers: dict[str, str], many: str, name: str
) -> None:
    """Neither those that its models leave out nor those of routes that it may not use."""
    listed = (await client.get(path, headers=headers)).json()[many]
    assert ["small"] == [model[name] for model in listed]


@pytest.mark.parametrize("name", ["tiny", "large", "nobody's"])
async def test_a_name_that_is_not_for_a_tenant_is_as_good_as_none(client: httpx.AsyncClient, name: str) -> None:
    """What exists and what does not are answered alike."""
    one, shown = await client.get(f"/v1/models/{name}"), await client.post("/api/show", json={"model": name})
    assert (404, 404) == (one.status_code, shown.status_code)
    assert "there is no such model; GET /v1/models lists those there are" == one.json()["error"]["message"]
    assert 200 == (await client.post("/api/show", json={"model": "small"})).status_code
