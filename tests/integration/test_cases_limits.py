"""Places that are given back, and what requests cost: streamed or whole, counted by the upstream or by us."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest

PICO = 10**12


@pytest.mark.parametrize("stream", [True, False])
async def test_a_place_comes_back_from_whoever_leaves(start_gateway: Any, eventually: Any, stream: bool) -> None:
    """With one place, each request of a hundred that hang up is followed by one that is let in."""
    fault = {"kind": "stall"} if stream else {"kind": "hang"}
    backend = {"use": "fake", "fail": [fault], "repeat": True}
    admit = {"use": "fixed_concurrency", "limit": 1, "queue": 0}
    front = await start_gateway({"backends": {"b": backend}, "defaults": {"admit": admit}})
    calls, admitter = front.backend("b"), front.gateway.world.routes[0].admitter
    body = b'{"model":"fake","stream":%b,"messages":[{"role":"user","content":"hi"}]}' % (
        b"true" if stream else b"false"
    )
    for number in range(1, 101):
        client = await front.raw()
        await client.post(body)
        await eventually(lambda number=number: calls.open_calls == number, within_s=1)
        client.hang_up()
        await eventually(lambda: admitter.in_flight == 0, within_s=1)
    assert {"client_gone"} == {row["status"] for row in await front.rows()}
    series = await front.series()
    assert 0 == series['headrace_backend_in_flight{backend="b"}'] == series["headrace_in_flight"]
    assert 100 == calls.closed_calls


async def test_who_waits_is_let_in_when_a_place_comes_free(start_gateway: Any, eventually: Any) -> None:
    """A request in the queue runs as soon as the one before it is given up."""
    backend = {"use": "fake", "fail": [{"kind": "stall"}]}
    front = await start_gateway(
        {"backends": {"b": backend}, "defaults": {"admit": {"use": "fixed_concurrency", "limit": 1}}}
    )
    client = await front.raw()
    async with front.stream():
        await client.post(b'{"model":"fake","messages":[{"role":"user","content":"hi"}]}')
        await eventually(lambda: front.gateway.world.routes[0].admitter.waiting == 1)
    assert 200 == (await client.answer()).status


PRICE = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 10}
ENDPOINTS = ["/v1/chat/completions", "/v1/completions"]


@pytest.mark.parametrize("usage", ["given", "in_last_chunk"])
@pytest.mark.parametrize("path", ENDPOINTS)
async def test_streamed_and_whole_cost_the_same(start_gateway: Any, path: str, usage: str) -> None:
    """The same prompt has the same tokens and the same price in both modes, wherever the upstream counts."""
    backend = {"use": "fake", "tokens": 20, "usage": usage, "models": {"fake": {"price": PRICE}}}
    front = await start_gateway({"backends": {"b": backend}})
    for stream in (True, False):
        await front.post({"stream": stream}, path=path)
    streamed, whole = await front.rows()
    counts = ("prompt_tokens", "output_tokens", "cost_pico_usd")
    assert [streamed[name] for name in counts] == [whole[name] for name in counts]
    assert 20 == whole["output_tokens"]
    assert whole["cost_pico_usd"] == whole["prompt_tokens"] * 10**6 + 20 * 10**7


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", ENDPOINTS)
async def test_missing_usage_is_counted_by_us(start_gateway: Any, path: str, stream: bool) -> None:
    """Where the upstream does not count, we do; the row says so, and nothing is free."""
    backend = {"use": "fake", "tokens": 40, "usage": "missing", "models": {"fake": {"price": PRICE}}}
    front = await start_gateway({"backends": {"b": backend}})
    assert 200 == (await front.post({"stream": stream}, path=path)).status_code
    row = await front.row()
    assert 1 == row["attempts_made"][0]["estimated"]
    assert 20 <= row["output_tokens"] <= 80
    assert row["prompt_tokens"] > 0
    assert row["cost_pico_usd"] == row["prompt_tokens"] * 10**6 + row["output_tokens"] * 10**7


async def test_an_upstreams_own_cost_is_not_taken_for_the_price(gateway_over: Any) -> None:
    """A ``cost`` of zero in the usage changes nothing."""
    front, _ = await gateway_over(_counting({**_usage(100, 0), "cost": 0}), models={"m": {"price": PRICE}})
    await front.post({"model": "m"})
    assert 100 * 10**6 + 10 * 10**7 == (await front.row())["cost_pico_usd"]


async def test_an_unknown_price_is_not_free(running: Any) -> None:
    """Without a price there is no cost, and a counter says how often."""
    response = await running.post()
    assert "x-headrace-cost-usd" not in response.headers
    assert (await running.row())["cost_pico_usd"] is None
    assert 1 == (await running.series())['headrace_unpriced_attempts_total{backend="made-up",model="fake"}']


def _usage(prompt: int, cached: int) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": cached}}


def _counting(usage: Any) -> Any:
    choice = {"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.answer(msgspec.json.encode({"choices": [choice], "usage": usage}))

    return respond


COUNTED = [
    ((1000, 0), 1000, 0),
    ((1000, 900), 100, 900),
    ((1000, 1000), 0, 1000),
    ((100, 900), 0, 100),
    ((1000, -5), 1000, 0),
]


@pytest.mark.parametrize("cached_price", [None, 0.25, 0])
@pytest.mark.parametrize(("counts", "fresh", "cached"), COUNTED)
async def test_each_token_is_paid_once(
    gateway_over: Any, counts: tuple[int, int], fresh: int, cached: int, cached_price: float | None
) -> None:
    """Cached tokens have their price, or that of input where there is none; odd counts never pay us back."""
    price = {**PRICE, **({} if cached_price is None else {"cached_input_usd_per_mtok": cached_price})}
    front, _ = await gateway_over(_counting(_usage(*counts)), models={"m": {"price": price}})
    response = await front.post({"model": "m"})
    rate = Decimal(1) if cached_price is None else Decimal(str(cached_price))
    expected_usd = (fresh + cached * rate + 10 * 10) / Decimal(10**6)
    assert expected_usd * PICO == (await front.row())["cost_pico_usd"]
    assert expected_usd == Decimal(response.headers["x-headrace-cost-usd"])


ODD = [{"prompt_tokens": True}, {"prompt_tokens": -7, "completion_tokens": -7}, {"prompt_tokens": 1e300}, [], "many", 7]


@pytest.mark.parametrize("usage", ODD)
async def test_odd_usage_costs_no_answer_and_is_never_negative(gateway_over: Any, usage: Any) -> None:
    """Counts that are none fail nothing, and no row has a negative number."""
    front, _ = await gateway_over(_counting(usage), models={"m": {"price": PRICE}})
    assert 200 == (await front.post({"model": "m"})).status_code
    row = await front.row()
    assert all(row[name] >= 0 for name in ("prompt_tokens", "output_tokens", "cost_pico_usd"))
