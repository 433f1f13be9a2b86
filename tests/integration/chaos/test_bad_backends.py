"""Backends that hang, reset, refuse and drip, clients that leave at every stage, and a file that is read anew."""

import asyncio
import random
import signal
import sqlite3
from collections import Counter
from contextlib import AsyncExitStack, closing
from typing import Any

import pytest
import yaml

from tests.integration.chaos.fronts import KEY, Front, Start, chat, tenant
from tests.integration.chaos.moody_upstream import moody
from tests.integration.raw_client import RawClient

PLACES = 12
CALLS = 400
TOKENS = 10**7
ASKED = 100
AT_ONCE = 16
TIMEOUTS = {"first_token_s": 0.2, "idle_s": 0.2, "total_s": 1.0, "client_s": 0.5}
PRICE = {"price": {"input_usd_per_mtok": 1, "output_usd_per_mtok": 2}}
ANSWERS = {200, 429, 502, 503, 504}


def _policy(urls: list[str], admit: dict[str, Any]) -> dict[str, Any]:
    """All that a route can have at once, and one without any of it."""
    moody_ones = {
        f"moody-{number}": {
            "use": "openai_compatible",
            "base_url": url,
            "api_key_env": ["KEY_A", "KEY_B"],
            "models": {"m": {**PRICE, "capabilities": ["continue"]}},
            "concurrency": {"adaptive": {"min": 2, "max": 8}} if number else 6,
        }
        for number, url in enumerate(urls)
    }
    good = {"use": "fake", "models": {"m": PRICE}}
    route = {
        "models": ["m"],
        "targets": list(moody_ones),
        "admit": admit,
        "timeouts": TIMEOUTS,
        "attempts": 4,
        "hedge": {"quantile": 0.5, "most_requests": 1, "most_spend": 1},
        "resume": True,
        "spill": {"to": "paid/m", "usd": 1, "after_s": 0.05},
        "deadline": {"first_token_s": 5, "total_s": 10},
    }
    slow = {"use": "fake", "models": {"good": PRICE}, "tokens": 100_000, "seconds_per_token": 0.02}
    limits = ({"concurrent": PLACES}, {"requests": CALLS, "per": "month"}, {"output_tokens": TOKENS, "per": "month"})
    return {
        "backends": {**moody_ones, "paid": good, "slow": slow},
        "routes": {"main": route, "calm": {"models": ["good"], "targets": ["slow"]}},
        "limits": {"backends": {"moody-0": [{"requests": 10_000, "per": "day"}]}},
        "tenants": tenant(*limits),
    }


class Crowd:
    """Clients that do what the dice say. ``answers`` are those that they have read whole, by the request's id."""

    def __init__(self, front: Front) -> None:
        self.front = front
        self.answers: dict[str, int] = {}
        self.dice = random.Random(20261130)  # noqa: S311  # a test's dice

    async def ask(self, *, streamed: bool, leaves: str) -> None:
        """One request of one client."""
        body = chat(stream=streamed, max_tokens=50)
        client = await self.front.served.connect()
        try:
            if leaves == "in its body":
                await client.post(body + b" " * 100, headers=f"x-api-key: {KEY}\r\ncontent-length: 999\r\n")
                return
            await client.post(body, headers=f"x-api-key: {KEY}\r\n")
            if leaves != "at once":
                await self._read(client, leaves)
        finally:
            await client.close()

    async def _read(self, client: RawClient, leaves: str) -> None:
        if leaves == "never":
            answer = await client.answer()
            assert answer.status in ANSWERS, answer
            self.answers[answer.header("x-request-id")] = answer.status
            return
        await client.head()
        if leaves == "after a word":
            await client.reader.read(1)

    async def all(self, number: int) -> None:
        """So many requests, a few at a time."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(streamed: bool, leaves: str) -> None:
            async with turns:
                await self.ask(streamed=streamed, leaves=leaves)

        stages = ("never", "never", "never", "in its body", "at once", "after its head", "after a word")
        plans = [(self.dice.random() < 0.6, self.dice.choice(stages)) for _ in range(number)]
        await asyncio.gather(*(one(*plan) for plan in plans))


def _taken(front: Front) -> tuple[int, int]:
    """What the ledger says was taken: requests that were attempted, and tokens of answers."""
    with closing(sqlite3.connect(front.served.policy_file.parent / "ledger.sqlite3")) as ledger:
        (requests,) = ledger.execute("SELECT count(*) FROM requests WHERE attempts > 0").fetchone()
        (tokens,) = ledger.execute("SELECT coalesce(sum(output_tokens), 0) FROM attempts").fetchone()
    return int(requests), int(tokens)


async def _streams(front: Front, number: int) -> tuple[Counter[int], list[RawClient]]:
    clients = [await front.begin(chat(stream=True, model="good", max_tokens=90_000)) for _ in range(number)]
    return Counter([(await client.head()).status for client in clients]), clients


@pytest.mark.parametrize(
    "admit",
    [
        {"use": "fair_queue", "limit": None, "wait_s": 3.0},
        {"use": "fixed_concurrency", "limit": 6, "queue": 20, "wait_s": 3.0},
    ],
    ids=lambda admit: str(admit["use"]),
)
async def test_whatever_backends_and_clients_do_nothing_is_left(
    start: Start, serve: Any, admit: dict[str, Any]
) -> None:
    """Each answer is one of ours and one line on the ledger; what is counted as taken is what the ledger has."""
    async with AsyncExitStack() as stack:
        upstreams = [await stack.enter_async_context(serve(moody(seed))) for seed in (1, 2)]
        policy = _policy([one.url for one in upstreams], admit)
        front = await start(policy, KEY_A="sk-a", KEY_B="sk-b")
        crowd = Crowd(front)
        await crowd.all(ASKED // 2)
        policy["routes"]["main"]["admit"] = admit | {"wait_s": 2.0}
        front.served.policy_file.write_text(yaml.safe_dump(policy))
        asking = asyncio.create_task(crowd.all(ASKED // 2))
        front.served.signal(signal.SIGHUP)
        await front.served.until_logged("the policy file was reloaded")
        await asking
        await front.until_calm()
        for upstream in upstreams:
            await upstream.until(lambda one: one.answering == 0)
        entries = front.entries()
        assert crowd.answers.keys() <= entries.keys()
        assert {"ok"} == {entries[name] for name, status in crowd.answers.items() if status == 200} - {"truncated"}
        assert "bug" not in entries.values()
        requests, tokens = _taken(front)
        last = await front.ask(chat(model="good", max_tokens=1))
        assert 200 == last.status
        assert CALLS - requests - 1 == int(last.header("x-ratelimit-remaining-requests"))
        assert TOKENS - tokens - 1 == int(last.header("x-ratelimit-remaining-tokens"))
        statuses, clients = await _streams(front, PLACES + 1)
        assert {200: PLACES, 429: 1} == statuses
        for client in clients:
            client.hang_up()
        await front.until_calm()
