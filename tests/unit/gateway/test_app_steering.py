"""A gateway that steers by what clients say of their tasks: from their words to where requests go, over a restart."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from gateway.__main__ import main

POLICY = """
    backends:
      weak: {use: fake, text: nope, models: {m: {price: {input_usd_per_mtok: 1, output_usd_per_mtok: 1}}}}
      strong: {use: fake, text: yep, models: {m: {price: {input_usd_per_mtok: 5, output_usd_per_mtok: 5}}}}
      new: {use: fake, text: maybe, models: {m: {price: {input_usd_per_mtok: 1, output_usd_per_mtok: 1}}}}
    routes:
      chat:
        models: [m]
        targets: [weak/m, strong/m]
        cost: [money, success]
        worth: {usd_per_success: 0.5}
        explore: {usd: 1000, share: 1}
        canary: {to: new/m, share: 0.1}
"""


@asynccontextmanager
async def _served(site: Any) -> AsyncIterator[tuple[Any, httpx.AsyncClient]]:
    async with site.running(POLICY) as gateway:
        transport = httpx.ASGITransport(app=gateway.asgi, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://gate") as client:
            yield gateway, client


async def _task(client: httpx.AsyncClient, task: str) -> str:
    """One request of a task; who answered it. The strong one is right, and so is nobody else."""
    body = {"model": "m", "messages": [{"role": "user", "content": "Say a few words."}]}
    answer = await client.post("/v1/chat/completions", json=body, headers={"x-headrace-task": task})
    assert 200 == answer.status_code
    backend = answer.headers["x-headrace-backend"]
    told = await client.post(f"/v1/tasks/{task}/outcome", json={"success": backend == "strong"})
    assert 200 == told.status_code
    return str(backend)


async def test_it_finds_out_who_is_worth_their_price(
    make_site: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dearer one, since it succeeds; the canary is rolled back; and all of it is known after a restart."""
    site = make_site(ledger="sqlite")
    async with _served(site) as (_, client):
        served = [await _task(client, f"t-{n}") for n in range(150)]
        told = (await client.get("/v1/success")).json()["routes"]["chat"]
        account = (await client.get("/v1/tasks/t-149")).json()
    assert served[-50:].count("strong") >= 35
    assert account["success"] is (served[-1] == "strong")
    chances = {one["backend"]: one["success"] for one in told["chances"]}
    assert chances["strong"] > 0.85
    assert chances["weak"] < 0.6
    assert 1 == pytest.approx(told["requests_per_task"], abs=0.05)
    assert told["explored"]["requests"] > 0
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(site.folder))
    assert 0 == await asyncio.to_thread(main, ["explain", str(site.file), "--success", "--json"])
    assert told["canary"]["canary"] == json.loads(capsys.readouterr().out)["chat"]["canary"]["canary"]
    async with _served(site) as (_, client):
        again = (await client.get("/v1/success")).json()["routes"]["chat"]
        assert told["chances"] == again["chances"]
        assert told["canary"]["canary"] == again["canary"]["canary"]
        assert [await _task(client, f"u-{n}") for n in range(30)].count("strong") >= 20


async def test_a_tenant_sees_the_routes_that_it_may_use(make_site: Any) -> None:
    """Of others not even the names."""
    keys = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("all", "some")}
    policy = f"""{POLICY}
      other: {{models: [o], targets: [weak/m], cost: [money, success]}}
    tenants:
      all: {{keys_sha256: [{keys["all"]}]}}
      some: {{keys_sha256: [{keys["some"]}], routes: [other]}}
    """
    async with make_site().running(policy) as gateway:
        transport = httpx.ASGITransport(app=gateway.asgi, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://gate") as client:
            for name, routes in (("all", {"chat", "other"}), ("some", {"other"})):
                told = (await client.get("/v1/success", headers={"x-api-key": name})).json()
                assert routes == told["routes"].keys()


async def test_judges_teach_it_too(make_site: Any) -> None:
    """Without a word of the client: one backend's answers are no JSON, and so it is not asked for long."""
    site = make_site(ledger="sqlite")
    price = "{price: {input_usd_per_mtok: %d, output_usd_per_mtok: %d}}"
    policy = f"""
        backends:
          chatty: {{use: fake, text: "Sure, here you are.", models: {{m: {price % (1, 1)}}}}}
          strict: {{use: fake, text: "{{}}", models: {{m: {price % (2, 2)}}}}}
        routes:
          r:
            models: [m]
            targets: [chatty/m, strict/m]
            cost: [money, success]
            worth: {{usd_per_success: 0.5}}
            explore: {{usd: 1000, share: 1}}
            judge: [valid_json]
    """
    body = {"model": "m", "messages": [{"role": "user", "content": "JSON, please."}]}
    async with site.running(policy) as gateway:
        transport = httpx.ASGITransport(app=gateway.asgi, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://gate") as client:
            served = []
            for _ in range(60):
                answer = await client.post("/v1/chat/completions", json=body)
                served.append(answer.headers["x-headrace-backend"])
                await asyncio.wait_for(gateway._afterwards.docket.idle(), 10)
            chances = (await client.get("/v1/success")).json()["routes"]["r"]["chances"]
    assert {"chatty", "strict"} == set(served)
    assert served[-20:].count("strict") >= 16
    assert 60 == pytest.approx(sum(one["tasks"] for one in chances), abs=0.1)


async def test_a_decision_that_explored_is_explained_as_it_was(
    make_site: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the ledger alone: with what was drawn, the interval and the tasks behind it."""
    site = make_site(ledger="sqlite")
    ids = []
    async with _served(site) as (_, client):
        for n in range(60):
            await _task(client, f"t-{n}")
            ids.append((await client.get(f"/v1/tasks/t-{n}")).json()["attempts_made"][0]["request"])
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(site.folder))
    drew = 0
    for request in ids:
        assert 0 == await asyncio.to_thread(main, ["explain", str(site.file), "--entry", request])
        out = capsys.readouterr().out
        assert "ledger     the same bills and the same choice" in out
        assert "tasks, " in out
        drew += "explores, drew" in out
    assert drew > 0
