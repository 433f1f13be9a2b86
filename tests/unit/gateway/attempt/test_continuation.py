"""A stream that breaks in the middle and is gone on with by another backend, through the whole pipeline."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from typing import Any

import pytest

from gateway.types import Status

OpenHouse = Callable[..., AbstractAsyncContextManager[Any]]
WORDS = "one two three four five six"
PRICE = "{input_usd_per_mtok: %d, output_usd_per_mtok: %d}"


def _policy(
    *faults: str,
    can: str = "[continue, many, logprobs, json_mode]",
    route: str = "resume: true",
    timeouts: str = "{idle_s: 0.1}",
) -> str:
    """As many backends as there are faults, and one more that is well; the earlier the cheaper."""
    backends = [
        f"""
              b{n}: {{use: fake, text: {WORDS}, {fault}
                      models: {{small: {{capabilities: {can}, price: {PRICE % (n + 1, n + 1)}}}}}}}"""
        for n, fault in enumerate((*faults, ""))
    ]
    targets = ", ".join(f"b{n}/small" for n in range(len(backends)))
    return f"""
            backends: {"".join(backends)}
            routes:
              main: {{models: [small], targets: [{targets}], cost: [money], timeouts: {timeouts}, {route}}}
    """


def _fails(kind: str, after: int) -> str:
    return f"fail: [{{kind: {kind}, after_chunks: {after}}}], repeat: true,"


@pytest.mark.parametrize("kind", ["cut", "reset", "error", "stall"])
async def test_a_broken_stream_is_gone_on_with_elsewhere(
    open_house: OpenHouse, make_exchange: Any, clock: Any, kind: str
) -> None:
    """The client gets each word once, one role, one envelope, one end; the last chunk says who went on with it."""
    async with open_house(_policy(_fails(kind, 3)), clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=True, stream_options={"include_usage": True}))
        assert (200, WORDS) == (exchange.status, exchange.text)
        *chunks, counted, end = exchange.events
        assert "[DONE]" == end
        assert 1 == sum("role" in choice["delta"] for chunk in chunks for choice in chunk["choices"])
        assert 1 == len({(chunk["id"], chunk["created"]) for chunk in (*chunks, counted)})
        assert {"continued_by": "b1"} == chunks[-1]["headrace"]
        assert "stop" == chunks[-1]["choices"][0]["finish_reason"]
        assert 1 == sum("headrace" in chunk for chunk in chunks)
        assert house.is_quiet()


async def test_both_attempts_are_counted_and_paid(open_house: OpenHouse, make_exchange: Any, clock: Any) -> None:
    """The client's usage and the ledger's price are those of both; the ledger says where the answer broke."""
    async with open_house(_policy(_fails("cut", 3)), clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=True, stream_options={"include_usage": True}))
    broken, rest = house.entry.attempts
    assert (Status.TRUNCATED, Status.OK, Status.OK) == (broken.status, rest.status, house.entry.outcome.status)
    assert "went on with the answer that broke at b0" == rest.detail
    usage = exchange.events[-2]["usage"]
    assert broken.usage.output_tokens + rest.usage.output_tokens == usage["completion_tokens"]
    assert broken.usage.prompt_tokens + rest.usage.prompt_tokens == usage["prompt_tokens"]
    assert usage["prompt_tokens"] + usage["completion_tokens"] == usage["total_tokens"]
    assert rest.usage.prompt_tokens > broken.usage.prompt_tokens - 4
    assert broken.cost_usd + rest.cost_usd == house.entry.cost_usd > Decimal(0)


async def test_it_may_break_again(open_house: OpenHouse, make_exchange: Any, clock: Any) -> None:
    """Within the route's attempts a third one goes on with what both have said."""
    policy = _policy(_fails("cut", 2), _fails("cut", 2))
    async with open_house(policy, clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=True))
        assert (WORDS, 3) == (exchange.text, len(house.entry.attempts))
        assert {"continued_by": "b2"} == exchange.events[-2]["headrace"]


async def test_who_goes_on_may_fail_before_a_word(open_house: OpenHouse, make_exchange: Any, clock: Any) -> None:
    """The next one is asked for the same rest."""
    policy = _policy(_fails("cut", 2), "fail: [{kind: status, status: 500}],")
    async with open_house(policy, clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=True))
        assert (WORDS, 3) == (exchange.text, len(house.entry.attempts))


@pytest.mark.parametrize(
    ("policy", "fields"),
    [
        (_policy(_fails("cut", 3), route="resume: false"), {}),
        (_policy(_fails("cut", 3), route="hedge: {}"), {}),
        (_policy(_fails("cut", 3), can="[tools]"), {}),
        (_policy(_fails("cut", 3), route="resume: true, attempts: 1"), {}),
        (_policy(_fails("cut", 3)), {"n": 2}),
        (_policy(_fails("cut", 3)), {"logprobs": True}),
        (_policy(_fails("cut", 3)), {"response_format": {"type": "json_object"}}),
    ],
    ids=["unsaid", "default", "cannot", "no attempts left", "choices", "logprobs", "form"],
)
async def test_what_cannot_be_gone_on_with_ends_with_an_error(
    open_house: OpenHouse, make_exchange: Any, clock: Any, policy: str, fields: dict[str, Any]
) -> None:
    """One error event, no end mark, and nobody else is asked."""
    async with open_house(policy, clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=True, **fields))
        assert "error" in exchange.events[-1]
        assert (1, Status.TRUNCATED) == (len(house.entry.attempts), house.entry.outcome.status)


async def test_a_deadline_is_not_moved(open_house: OpenHouse, make_exchange: Any, clock: Any) -> None:
    """What breaks at the request's deadline stays broken."""
    policy = _policy(_fails("stall", 3), timeouts="{idle_s: 5, total_s: 0.2}")
    async with open_house(policy, clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=True))
        assert ("error" in exchange.events[-1], 1) == (True, len(house.entry.attempts))


async def test_a_hang_up_ends_the_rest_too(open_house: OpenHouse, make_exchange: Any, clock: Any) -> None:
    """The client that leaves in the second half is recorded as gone, and nothing stays behind."""
    policy = _policy(_fails("cut", 3), "fail: [{kind: stall, after_chunks: 2}],")
    async with open_house(policy.replace("idle_s: 0.1", "idle_s: 5"), clock=clock) as house:
        exchange = make_exchange(stream=True)
        task = house.begin(exchange)
        await house.until(lambda: b"four" in exchange.received or b"five" in exchange.received)
        exchange.hang_up()
        await house.until(task.done)
        assert Status.CLIENT_GONE is house.entry.outcome.status
        assert house.is_quiet()
