import asyncio
import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.app import Gateway
from gateway.errors import ConfigurationError
from gateway.settings import Settings

ONE = "backends: {one: {use: fake, text: first, models: [small]}}"
OTHER = "backends: {other: {use: fake, text: second, models: [small]}}"
SLOW = "backends: {one: {use: fake, text: first, models: [small], first_token_s: 5}}"
KEY = "sk-tenant"
LOCKED = f"{ONE}\ntenants: {{acme: {{keys_sha256: [{hashlib.sha256(KEY.encode()).hexdigest()}]}}}}"


def _is_open(backend: Any) -> bool:
    return backend._calls.world is not None


async def _served_by(gateway: Gateway, exchange: Any) -> str:
    await gateway.pipeline.handle(exchange)
    return exchange.answer_headers.get("x-headrace-backend", "")


# ---- start and stop -------------------------------------------------------------------------------------------------


async def test_building_starts_nothing(site: Any) -> None:
    """A gateway that is not started has opened no backend, and a wrong file none either."""
    assert not _is_open(site.gateway(ONE).world.backends["one"])
    with pytest.raises(ConfigurationError, match=r"policy\.yaml: backends\.one"):
        site.gateway("backends: {one: {use: nonsense}}")


async def test_start_opens_the_backends_and_close_closes_them(site: Any, make_exchange: Any) -> None:
    """And closing twice does no harm."""
    async with site.running(ONE) as gateway:
        assert "one" == await _served_by(gateway, make_exchange())
        backend = gateway.world.backends["one"]
        assert _is_open(backend)
    assert not _is_open(backend)
    await gateway.close()


async def test_close_ends_what_still_runs(site: Any, make_exchange: Any, hand_clock: Any) -> None:
    """No request outlives the gateway, and the last ones are told."""
    async with site.running(SLOW) as gateway:
        exchange = make_exchange()
        task = asyncio.create_task(gateway.pipeline.handle(exchange))
        await hand_clock.asleep.wait()
    await task
    assert (503, "shutting_down") == (exchange.status, exchange.json["error"]["code"])


async def test_a_start_that_fails_gives_everything_back(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend whose secret is not set stops the start; those that were up before it are closed again."""
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    gateway = site.gateway(
        f"{ONE}\n".replace(
            "}}", "}, two: {use: openai_compatible, preset: groq, models: [x], api_key_env: NO_SUCH_KEY}}"
        )
    )
    told = await _lifespan(gateway)
    assert ["lifespan.startup.failed"] == told
    assert not _is_open(gateway.world.backends["one"])


async def test_the_lifespan_starts_and_stops_everything(site: Any) -> None:
    """What a server does around the application is all that is needed."""
    gateway = site.gateway(ONE)
    assert ["lifespan.startup.complete", "lifespan.shutdown.complete"] == await _lifespan(gateway)
    assert not _is_open(gateway.world.backends["one"])
    assert gateway.pipeline.draining


async def _lifespan(gateway: Gateway) -> list[str]:
    """Plays the server's part of the ASGI lifespan; what the application said."""
    asked = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    told: list[str] = []

    async def receive() -> dict[str, Any]:
        return next(asked)

    async def send(message: dict[str, Any]) -> None:
        told.append(message["type"])

    with suppress(ConfigurationError):
        await gateway.asgi({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)
    return told


async def test_requests_are_on_disk_when_the_gateway_is_closed(
    make_site: Callable[..., Any], make_exchange: Any, tmp_path: Path
) -> None:
    """The ledger is drained at the end, whatever is still on its way."""
    from gateway.stores.sql import SqlLedger

    async with make_site(ledger="sqlite").running(ONE) as gateway:
        for _ in range(3):
            await gateway.pipeline.handle(make_exchange())
        await gateway.pipeline.handle(make_exchange(model="nonsense"))
    assert 4 == await SqlLedger(tmp_path / "ledger.sqlite3").count()


# ---- who may come in ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104  # refused
        ("::", False),
        ("", False),
        ("gateway.example", False),
    ],
)
def test_without_keys_only_this_machine_may_come(make_site: Callable[..., Any], host: str, allowed: bool) -> None:
    """An address that others can reach wants keys; with keys any address will do."""
    site = make_site(host=host)
    site.gateway(LOCKED).check_bind()
    if allowed:
        site.gateway(ONE).check_bind()
        return
    with pytest.raises(ConfigurationError, match="no tenant has a key") as caught:
        site.gateway(ONE).check_bind()
    assert "HEADRACE_HOST" == caught.value.where


async def test_a_reload_cannot_take_the_keys_away_from_a_public_address(
    make_site: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The rule holds for every file, not only for the first."""
    site = make_site(host="0.0.0.0")  # noqa: S104  # with keys
    async with site.running(LOCKED) as gateway:
        site.file.write_text(ONE)
        await gateway.reload()
        assert gateway.pipeline.rules.door.locked
    assert "no tenant has a key" in caplog.text


# ---- what is shown --------------------------------------------------------------------------------------------------


async def test_it_is_ready_while_one_backend_takes_requests(site: Any) -> None:
    """One that is down is named with its reason; when all are, or when it drains, it is not ready."""
    two = "backends: {a: {use: fake}, b: {use: fake}}\nroutes: {r: {models: ['*'], targets: [a, b]}}"
    async with site.running(two) as gateway:
        assert (True, {"a": "up", "b": "up"}) == (gateway.readiness().ready, dict(gateway.readiness().reasons))
        _take_down(gateway.world.backends["a"])
        assert (True, {"a": "starting", "b": "up"}) == (gateway.readiness().ready, dict(gateway.readiness().reasons))
        _take_down(gateway.world.backends["b"])
        assert not gateway.readiness().ready
    async with site.running(ONE) as gateway:
        assert gateway.readiness().ready
        await gateway.pipeline.drain(0)
        assert not gateway.readiness().ready


async def test_a_backend_that_cools_is_named_and_leaves_the_gateway_ready(
    site: Any, make_exchange: Callable[..., Any]
) -> None:
    """A provider that limits us for some seconds takes no gateway out of rotation."""
    limited = "backends: {a: {use: fake, models: [small], fail: [{kind: status, status: 429}]}}"
    async with site.running(limited) as gateway:
        await gateway.pipeline.handle(make_exchange())
        state = gateway.readiness()
        assert (True, {"a": "cooling after upstream_rate_limited"}) == (state.ready, dict(state.reasons))
        site.clock.advance(5)
        assert {"a": "up"} == dict(gateway.readiness().reasons)


def _take_down(backend: Any) -> None:
    from dataclasses import replace

    vars(backend)["_facts"] = replace(backend.facts(), down="starting")


async def test_a_scrape_counts_what_has_just_ended(site: Any, make_exchange: Any) -> None:
    """No request is missing from the metrics because a batch was not full."""
    async with site.running(ONE) as gateway:
        await gateway.pipeline.handle(make_exchange())
        await gateway.pipeline.handle(make_exchange(body=b"{"))
        transport = httpx.ASGITransport(app=gateway.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://gate") as client:
            text = (await client.get("/metrics")).text
        assert 'headrace_backend_up{backend="one"} 1.0' in text
        assert 'status="ok"' in text
        assert 'status="rejected"' in text
        assert "headrace_in_flight 0.0" in text


async def test_secrets_are_those_that_the_file_names(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What must never be written is known to the logs, also after a reload."""
    for name in ("FIRST_KEY", "SECOND_KEY"):
        monkeypatch.setenv(name, f"value-of-{name}")
    remote = "backends: {{r: {{use: openai_compatible, preset: groq, models: [m], api_key_env: {0}}}}}"
    async with site.running(remote.format("FIRST_KEY")) as gateway:
        assert ("value-of-FIRST_KEY",) == gateway.secrets()
        site.file.write_text(remote.format("SECOND_KEY"))
        await gateway.reload()
        assert ("value-of-SECOND_KEY",) == gateway.secrets()


def test_without_a_policy_file_the_shipped_one_is_read(tmp_path: Path) -> None:
    """The embedded model answers whatever name an app asks for."""
    gateway = Gateway(Settings(state_dir=tmp_path, model_dir=tmp_path, ledger="off"))
    assert "local" == gateway.world.match("gpt-4o").targets[0].backend
