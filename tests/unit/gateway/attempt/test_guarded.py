"""Guards and everything that an answer can come from: streams that are gone on with, hedges, cascades, limits."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from gateway.limits.borrower import Borrower
from gateway.limits.gate import Gate
from gateway.stores.sqlite_lender import SqliteLender
from gateway.types import Status

OpenHouse = Callable[..., AbstractAsyncContextManager[Any]]
WORDS = "one two three four five six seven eight nine ten"


def _policy(first: str, guard: str, route: str = "", *, capabilities: str = "[continue]") -> str:
    model = f"models: {{small: {{capabilities: {capabilities}, price: %s}}}}"
    prices = [f"{{input_usd_per_mtok: {n}, output_usd_per_mtok: {n}}}" for n in (1, 2)]
    return f"""
        backends:
          first: {{use: fake, text: {WORDS}, {first} {model % prices[0]}}}
          second: {{use: fake, text: {WORDS}, {model % prices[1]}}}
        routes:
          main:
            models: [small]
            targets: [first/small, second/small]
            cost: [money]
            guards: [{{when: after, use: pattern, on_error: refuse, {guard}}}]
            {route}
    """


@pytest.fixture
async def gate(tmp_path: Path, clock: Any) -> AsyncIterator[Gate]:
    """The limits of one process, in which budgets are kept."""
    borrower = Borrower(SqliteLender(tmp_path / "limits.sqlite3", clock=clock), replica="r", clock=clock)
    yield Gate(borrower, clock=clock)
    await borrower.close()


CUT = "fail: [{kind: cut, after_chunks: 5}], repeat: true,"


@pytest.mark.parametrize("stream", ["hold", "window"])
async def test_a_match_over_the_place_where_a_stream_broke_is_found(
    open_house: OpenHouse, make_exchange: Any, clock: Any, stream: str
) -> None:
    """The guard sees one stream, whoever goes on with it; what is held is simply begun anew."""
    guard = f"patterns: ['four five six'], replacement: 4-6, action: redact, stream: {stream}"
    async with open_house(_policy(CUT, guard, "resume: true"), clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=True))
        assert (200, WORDS.replace("four five six", "4-6")) == (exchange.status, exchange.text)
        assert (2, Status.OK) == (len(house.entry.attempts), house.entry.outcome.status)
        assert house.is_quiet()


async def test_what_a_guard_blocks_is_not_gone_on_with_elsewhere(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """A block is no break."""
    guard = "patterns: [eight], action: block, stream: window"
    async with open_house(_policy("", guard, "resume: true"), clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=True))
        assert "content_filter" == exchange.events[-2]["choices"][0]["finish_reason"]
        assert (1, 0) == (len(house.entry.attempts), house.backend("second").open_calls)


async def test_the_copy_of_a_shadow_has_nothing_that_was_redacted(
    open_house: OpenHouse, make_exchange: Any, clock: Any, gate: Gate
) -> None:
    """It is the request as it went on; and no guard looks at the shadow's answer."""
    before = "{when: before, use: pattern, on_error: refuse, patterns: [secret], replacement: S, action: redact}"
    text = _policy(
        "", "patterns: [never], action: block", "shadow: {to: second/small, share: 1, usd: 1, most_load: 1000}"
    )
    text = text.replace("guards: [", f"guards: [{before}, ").replace("[first/small, second/small]", "[first/small]")
    async with open_house(text, clock=clock, gate=gate) as house:
        calls: list[Any] = []
        backend = house.backend("second")
        send = type(backend).send

        async def spying(self: Any, call: Any, sink: Any) -> Any:
            calls.append(call.request.messages[0].content)
            return await send(self, call, sink)

        object.__setattr__(backend, "__class__", type("Fake", (type(backend),), {"send": spying}))
        await house.serve(make_exchange(messages=[{"role": "user", "content": "a secret"}]))
        await house.judging_is_over()
        assert ["a S"] == calls
        assert [["pattern:redact", "pattern:allow"]] == [
            [mark.in_words() for mark in one.guards] for one in house.entries
        ]


async def test_where_nobody_answers_there_is_nothing_to_look_at(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """An error of a backend is told as ever."""
    guard = "patterns: [one], action: redact"
    failing = "fail: [{kind: status, status: 500}], repeat: true,"
    text = _policy(failing, guard, "attempts: 1")
    async with open_house(text, clock=clock) as house:
        for stream in (True, False):
            exchange = await house.serve(make_exchange(stream=stream))
            assert (502, ()) == (exchange.status, house.entries[-1].guards)
