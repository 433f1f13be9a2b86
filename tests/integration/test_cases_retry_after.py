"""When to come back, said by upstreams and by us; and kept connections that close just as they are used."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import msgspec
import pytest

WHOLE = msgspec.json.encode({"choices": [{"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}]})
ERROR = b'{"error":{"message":"slow down","type":"t","code":"c"}}'
FALLBACK_S = 5
"""How long a backend rests after a 429 that says nothing understandable."""


def _value(said: str | timedelta) -> str:
    return said if isinstance(said, str) else format_datetime(datetime.now(UTC) + said, usegmt=True)


SAID = {
    "seconds": (["2"], 2, 2),
    "zero": (["0"], 0, 0),
    "negative": (["-5"], FALLBACK_S, FALLBACK_S),
    "infinite": (["1e999"], FALLBACK_S, FALLBACK_S),
    "no number": (["nan"], FALLBACK_S, FALLBACK_S),
    "junk": (["soon"], FALLBACK_S, FALLBACK_S),
    "nothing": ([], FALLBACK_S, FALLBACK_S),
    "a date in the past": ([timedelta(days=-1)], 0, 0),
    "a date in a minute": ([timedelta(minutes=1)], 50, 60),
    "a date in three days": ([timedelta(days=3)], 90, 90),
    "two of them": (["1", "3"], 3, 3),
}


def _refusing(status: int, values: list[Any]) -> Any:
    """An upstream that refuses once, with these ``Retry-After`` headers, and is well from then on."""

    async def respond(_: Any, conversation: Any) -> None:
        if conversation.number > 1:
            await conversation.answer(WHOLE)
            return
        lines = "".join(f"retry-after: {_value(value)}\r\n" for value in values)
        head = f"HTTP/1.1 {status} No\r\ncontent-type: application/json\r\ncontent-length: {len(ERROR)}\r\n{lines}\r\n"
        await conversation.send(head.encode() + ERROR)

    return respond


@pytest.mark.parametrize("said", SAID)
async def test_an_upstreams_wait_is_obeyed(gateway_over: Any, said: str) -> None:
    """Both forms count, junk does not, nothing is believed beyond the limit; meanwhile nobody is sent there."""
    values, least_s, most_s = SAID[said]
    front, upstream = await gateway_over(_refusing(429, values), max_retry_after_s=90)
    first, second = await front.post(), await front.post()
    assert 429 == first.status_code
    if most_s == 0:
        assert (200, 2) == (second.status_code, len(upstream.requests))
        return
    assert (503, "no_candidate", 1) == (second.status_code, second.json()["error"]["code"], len(upstream.requests))
    assert least_s <= int(second.headers["retry-after"]) <= most_s


async def test_a_503_that_names_a_time_is_obeyed_too(gateway_over: Any) -> None:
    """A 503 with ``Retry-After`` rests the backend at its first failure; one without does not."""
    resting, _ = await gateway_over(_refusing(503, ["2"]))
    willing, _ = await gateway_over(_refusing(503, []))
    assert [502, 503] == [(await resting.post()).status_code for _ in range(2)]
    assert [502, 200] == [(await willing.post()).status_code for _ in range(2)]


async def test_the_wait_is_passed_on(gateway_over: Any) -> None:
    """The client of the refused request hears the upstream's time in whole seconds."""
    front, _ = await gateway_over(_refusing(429, ["1.2"]))
    response = await front.post()
    assert ("2", "c") == (response.headers["retry-after"], response.json()["error"]["code"])


async def test_our_own_limit_says_when_to_come_back(start_gateway: Any, eventually: Any) -> None:
    """A full gateway answers 503 with whole seconds."""
    admit = {"use": "fixed_concurrency", "limit": 1, "queue": 0}
    front = await start_gateway(
        {"backends": {"b": {"use": "fake", "fail": [{"kind": "stall"}]}}, "defaults": {"admit": admit}}
    )
    async with front.stream():
        response: httpx.Response = await front.post()
        assert (503, "overloaded") == (response.status_code, response.json()["error"]["code"])
        assert int(response.headers["retry-after"]) >= 1
    await eventually(lambda: front.gateway.pipeline.running == 0)
    assert 200 == (await front.post()).status_code


async def test_idle_connections_that_the_upstream_closed_are_not_used(gateway_over: Any) -> None:
    """An upstream that closes each connection after its answer, without a word, costs nobody an answer."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.answer(WHOLE)
        conversation.writer.close()

    front, upstream = await gateway_over(respond)
    for _ in range(50):
        assert 200 == (await front.post()).status_code
        await upstream.until(lambda up: up.open_connections == 0)
    assert 50 == len(upstream.requests)


async def test_connections_are_dropped_before_the_upstream_would(gateway_over: Any) -> None:
    """A connection idle for longer than ``keep_alive_s`` is not used again; a fresh one is, by many requests."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.answer(WHOLE)

    impatient, its_upstream = await gateway_over(respond, keep_alive_s=1e-9)
    lasting, other_upstream = await gateway_over(respond)
    for front in (impatient, lasting):
        assert [200] * 3 == [(await front.post()).status_code for _ in range(3)]
    assert (3, 1) == (its_upstream.connections, other_upstream.connections)


async def test_a_connection_that_closes_as_it_is_used_costs_another_try_elsewhere(gateway_over: Any) -> None:
    """A hang-up at the moment of the request is repaired by the failover loop, and nothing is sent twice there."""
    executed: list[str] = []

    async def respond(request: Any, conversation: Any) -> None:
        if conversation.number == 2:
            conversation.writer.write_eof()
            await conversation.until_closed()
            return
        executed.append(request.json["model"])
        await conversation.answer(WHOLE)

    policy = {"routes": {"all": {"models": ["*"], "targets": ["up/a", "up/b"]}}}
    front, upstream = await gateway_over(respond, policy=policy)
    for _ in range(20):
        assert 200 == (await front.post()).status_code
    assert 20 == len(executed)
    assert 20 == sum(row["status"] == "ok" for row in await front.rows())
    assert len(upstream.requests) == sum(row["attempts"] for row in await front.rows())


async def test_idle_clients_are_kept_longer_than_proxies_do(start_gateway: Any) -> None:
    """Our side closes an idle connection after ``HEADRACE_KEEP_ALIVE_S`` seconds, by default 75."""
    front = await start_gateway(keep_alive_s=1)
    assert 75 == (await start_gateway()).server.config.timeout_keep_alive
    client = await front.raw()
    await client.post(b"{}")
    assert 400 == (await client.answer()).status
    assert b"" == await client.until_closed()
