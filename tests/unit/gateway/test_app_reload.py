import asyncio
import hashlib
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from backends.fake import Fake
from gateway.app import Gateway
from gateway.rules.policy_file import PolicyFile, read_policy

ONE = "backends: {one: {use: fake, text: first, models: [small]}}"
OTHER = "backends: {other: {use: fake, text: second, models: [small]}}"
SLOW = "backends: {one: {use: fake, text: first, models: [small], first_token_s: 5}}"
KEY = "sk-tenant"
LOCKED = f"{ONE}\ntenants: {{acme: {{keys_sha256: [{hashlib.sha256(KEY.encode()).hexdigest()}]}}}}"


def _is_open(backend: Any) -> bool:
    return backend._calls.world is not None


async def _turns(number: int) -> None:
    """Lets everything else that can run do so."""
    for _ in range(number):
        await asyncio.sleep(0)


async def _served_by(gateway: Gateway, exchange: Any) -> str:
    await gateway.pipeline.handle(exchange)
    return exchange.answer_headers.get("x-headrace-backend", "")


async def test_a_reload_swaps_the_world(site: Any, make_exchange: Any) -> None:
    """The next request is served under the new file."""
    async with site.running(ONE) as gateway:
        site.file.write_text(OTHER)
        await gateway.reload()
        assert "other" == await _served_by(gateway, make_exchange())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("backends: [", "line 1"),
        ("backends: {one: {use: nonsense}}", "no backend plugin"),
        (
            "backends: {two: {use: openai_compatible, preset: groq, models: [m], api_key_env: MISSING}}",
            "MISSING",
        ),
    ],
)
async def test_a_bad_file_keeps_the_old_world_and_says_so(
    site: Any,
    make_exchange: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    words: str,
) -> None:
    """What is wrong stands in the log; requests are served as before."""
    monkeypatch.delenv("MISSING", raising=False)
    async with site.running(ONE) as gateway:
        before = gateway.world
        site.file.write_text(text)
        await gateway.reload()
        assert gateway.world is before
        assert "one" == await _served_by(gateway, make_exchange())
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "the policy file was not reloaded" in record.message
    assert words in record.message


async def test_a_reload_that_fails_half_way_closes_what_it_had_started(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backend of a world that never came is not left running."""
    monkeypatch.delenv("MISSING", raising=False)
    closed: list[str] = []
    async with site.running(ONE) as gateway:
        close = Fake.close

        async def noting(self: Fake) -> None:
            closed.append(self.text)
            await close(self)

        monkeypatch.setattr(Fake, "close", noting)
        site.file.write_text(
            "backends: {new: {use: fake, text: new}, b: {use: openai_compatible, preset: groq, api_key_env: MISSING}}\n"
            "routes: {r: {models: [m], targets: [new]}}"
        )
        await gateway.reload()
        assert ["new"] == closed
        assert _is_open(gateway.world.backends["one"])


async def test_a_removed_backend_is_closed_when_its_requests_have_ended(
    site: Any, make_exchange: Any, hand_clock: Any
) -> None:
    """Nothing new goes there from the reload on; what runs there may finish, and only then is it closed."""
    async with site.running(SLOW) as gateway:
        removed = gateway.world.backends["one"]
        running = make_exchange(stream=True)
        task = asyncio.create_task(gateway.pipeline.handle(running))
        await hand_clock.asleep.wait()
        site.file.write_text(OTHER)
        await gateway.reload()
        assert "other" == await _served_by(gateway, make_exchange())
        await _turns(10)
        assert _is_open(removed)
        hand_clock.advance(5)
        await task
        assert "first" == running.text
        await asyncio.gather(*gateway._retirement._tasks)
        assert (False, 1) == (_is_open(removed), removed.open_calls)


async def test_a_changed_backend_retires_and_an_unchanged_one_stays(site: Any) -> None:
    """By configuration, not by place in the file."""
    both = """
        backends: {{same: {{use: fake, text: same}}, changed: {{use: fake, text: {0}}}}}
        routes: {{r: {{models: ['*'], targets: [same, changed]}}}}
    """
    async with site.running(both.format("old")) as gateway:
        same, changed = gateway.world.backends["same"], gateway.world.backends["changed"]
        site.file.write_text(both.format("new"))
        await gateway.reload()
        await asyncio.gather(*gateway._retirement._tasks)
        assert gateway.world.backends["same"] is same
        assert (True, False, True) == (_is_open(same), _is_open(changed), _is_open(gateway.world.backends["changed"]))


async def test_closing_in_the_middle_of_a_retirement_closes_it_too(
    site: Any, make_exchange: Any, hand_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backend that still served its last request when the gateway stopped is not forgotten."""
    close = Fake.close

    async def slowly(self: Fake) -> None:
        await _turns(1000 if self.text == "first" else 0)
        await close(self)

    monkeypatch.setattr(Fake, "close", slowly)
    async with site.running(SLOW) as gateway:
        removed = gateway.world.backends["one"]
        task = asyncio.create_task(gateway.pipeline.handle(make_exchange()))
        await hand_clock.asleep.wait()
        site.file.write_text(OTHER)
        await gateway.reload()
        assert _is_open(removed)
    await task
    assert not _is_open(removed)


async def test_reloads_come_one_after_the_other(site: Any) -> None:
    """Two signals in a row leave one world, and every backend of the others closed."""
    async with site.running(ONE) as gateway:
        site.file.write_text(OTHER)
        await asyncio.gather(gateway.reload(), gateway.reload())
        await asyncio.gather(*gateway._retirement._tasks)
        assert ["other"] == list(gateway.world.backends)
        assert _is_open(gateway.world.backends["other"])


async def test_a_storm_of_signals_is_two_reloads(
    site: Any, make_exchange: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first begins at once; all that come while it runs share the next one, which reads the file afterwards."""
    read: list[str] = []

    def noting(path: Path) -> PolicyFile:
        read.append(path.read_text())
        return read_policy(path)

    async with site.running(ONE) as gateway:
        monkeypatch.setattr("gateway.worlds.read_policy", noting)
        storm = [asyncio.create_task(gateway.reload()) for _ in range(50)]
        await _turns(1)
        site.file.write_text(OTHER)
        await asyncio.gather(*storm)
        assert 2 == len(read)
        assert OTHER == read[-1]
        assert "other" == await _served_by(gateway, make_exchange())


async def test_requests_are_served_while_a_file_is_read(
    site: Any, make_exchange: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading and building are not the event loop's work: streams go on meanwhile, under the old file."""
    served = threading.Event()

    def slowly(path: Path) -> PolicyFile:
        assert served.wait(2), "nobody was served"
        return read_policy(path)

    async with site.running(ONE) as gateway:
        monkeypatch.setattr("gateway.worlds.read_policy", slowly)
        site.file.write_text(OTHER)
        reloading = asyncio.create_task(gateway.reload())
        await _turns(5)
        assert "one" == await _served_by(gateway, make_exchange())
        served.set()
        await reloading
        assert "other" == await _served_by(gateway, make_exchange())


async def test_closing_waits_for_a_reload_and_then_there_is_no_other(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backend that was started in the last moment is not left running, and a late signal starts none."""
    go_on = threading.Event()

    def slowly(path: Path) -> PolicyFile:
        assert go_on.wait(2)
        return read_policy(path)

    monkeypatch.setattr("gateway.worlds.read_policy", slowly)
    go_on.set()
    async with site.running(ONE) as gateway:
        go_on.clear()
        site.file.write_text(OTHER)
        reloading = asyncio.create_task(gateway.reload())
        await _turns(5)
        closing = asyncio.create_task(gateway.close())
        await _turns(5)
        go_on.set()
        await asyncio.gather(reloading, closing)
        (last,) = gateway.world.backends.values()
        assert ("second", False) == (last.text, _is_open(last))
        site.file.write_text(ONE)
        await gateway.reload()
        assert ["other"] == list(gateway.world.backends)


async def test_a_reload_may_lock_the_door(site: Any, make_exchange: Any) -> None:
    """Keys are part of the file: from the reload on they are asked for."""
    async with site.running(ONE) as gateway:
        site.file.write_text(LOCKED)
        await gateway.reload()
        stranger, tenant = make_exchange(), make_exchange(headers=[(b"x-api-key", KEY.encode())])
        await gateway.pipeline.handle(stranger)
        await gateway.pipeline.handle(tenant)
        assert (401, 200) == (stranger.status, tenant.status)
