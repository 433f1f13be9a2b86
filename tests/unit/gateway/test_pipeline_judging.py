import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from gateway.judgement import Occasion
from gateway.rules.judging import drawn
from gateway.types import Operation

OpenHouse = Callable[..., AbstractAsyncContextManager[Any]]


def _policy(judge: str, first: str = "", **more: str) -> str:
    return f"""
        backends: {{only: {{use: fake, text: one two three, {first}}}}}
        routes: {{main: {{models: ["*"], targets: [only], judge: {judge}, {more.get("route", "")}}}}}
    """


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("operation", [Operation.CHAT, Operation.COMPLETION])
async def test_an_answer_is_judged_after_it_was_served(
    open_house: OpenHouse, make_exchange: Any, clock: Any, stream: bool, operation: Operation
) -> None:
    """Whole or streamed; what each judge says and all together, and the client's bytes are what they were."""
    async with open_house(_policy("[finish_reason, valid_json]"), clock=clock) as house:
        exchange = await house.serve(make_exchange(operation=operation, stream=stream))
        await house.judging_is_over()
        (judged,) = house.judged
        entry = house.entry
        assert (Occasion.SERVED, 1, entry.arrival.id, "main", "only", "fake") == (
            judged.occasion,
            judged.attempt,
            judged.request_id,
            judged.route,
            judged.backend,
            judged.model,
        )
        assert [("finish_reason", True), ("valid_json", False)] == [
            (name, one.success) for name, one in judged.judgements
        ]
        assert (False, 0.0, "valid_json: no valid JSON") == (
            judged.judgement.success,
            judged.judgement.score,
            judged.judgement.reason,
        )
        assert (entry.attempts[0].usage, entry.attempts[0].cost_usd) == (judged.usage, judged.cost_usd)
        assert (200, b"one" in exchange.received, b"three" in exchange.received) == (exchange.status, True, True)


async def test_any_of_several_judges_is_enough_where_the_file_says_so(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """The best score of those who agree."""
    async with open_house(_policy("{any: [valid_json, {use: cel, expression: '0.75'}]}"), clock=clock) as house:
        await house.serve(make_exchange())
        await house.judging_is_over()
        assert (True, 0.75) == (house.judged[0].judgement.success, house.judged[0].judgement.score)


async def test_a_sample_is_drawn_by_the_id(open_house: OpenHouse, make_exchange: Any, clock: Any) -> None:
    """Those that are drawn are judged, and no others."""
    async with open_house(_policy("{all: [non_empty], sample: 0.25}"), clock=clock) as house:
        for _ in range(60):
            await house.serve(make_exchange())
        await house.judging_is_over()
        ids = [entry.arrival.id for entry in house.entries]
        expected = [request_id for request_id in ids if drawn(request_id, "judge", 0.25)]
        assert sorted(expected) == sorted(judged.request_id for judged in house.judged)


async def test_what_was_no_answer_is_not_judged(
    open_house: OpenHouse, make_exchange: Any, clock: Any, failing: Any
) -> None:
    """A failure is one already, and an embedding has nothing to say."""
    async with open_house(_policy("[non_empty]", failing("status", "cut", after_chunks=2)), clock=clock) as house:
        await house.serve(make_exchange())
        await house.serve(make_exchange(stream=True))
        await house.serve(make_exchange(operation=Operation.EMBEDDING, body=b'{"model":"m","input":"x"}'))
        await house.judging_is_over()
        assert [] == house.judged


async def test_a_client_that_leaves_is_judged_by_nobody(open_house: OpenHouse, make_exchange: Any, clock: Any) -> None:
    """There was no whole answer."""
    async with open_house(_policy("[non_empty]", "tokens: 50"), clock=clock) as house:
        exchange = make_exchange(stream=True, stops_at=None)
        exchange.stops_at = b"two"
        task = house.begin(exchange)
        await exchange.blocked.wait()
        exchange.hang_up()
        await task
        await house.judging_is_over()
        assert [] == house.judged


async def test_an_answer_that_is_too_long_to_keep_is_named_and_not_judged(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """What is kept for judges is bounded; the client has all of it."""
    async with open_house(_policy("[valid_json]", "tokens: 60000"), clock=clock) as house:
        exchange = await house.serve(make_exchange())
        await house.judging_is_over()
        assert 60_000 == len(exchange.json["choices"][0]["message"]["content"].split())
        judgement = house.judged[0].judgement
        assert (None, "the answer is longer than 262144 bytes") == (judgement.success, judgement.reason)


async def test_judges_that_are_behind_lose_answers_and_say_so(
    open_house: OpenHouse, make_exchange: Any, clock: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Serving goes on: what finds no room in the queue is counted and forgotten."""
    (tmp_path / "acme_slow.py").write_text(
        "import threading\nfrom dataclasses import dataclass\nfrom gateway.judgement import passed\n\n"
        "GATE = threading.Event()\n\n@dataclass(frozen=True)\nclass Slow:\n"
        "    def judge(self, request, answer):\n        GATE.wait(30)\n        return passed()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    async with open_house(_policy("['acme_slow:Slow']"), clock=clock) as house:
        docket = house.afterwards.docket
        docket._capacity = 3
        for _ in range(8):
            await house.serve(make_exchange())
            await asyncio.sleep(0)
        assert 8 == len(house.entries)
        assert (3, {"queue_full": 3}) == (docket.waiting, dict(docket.skipped))
        import acme_slow

        acme_slow.GATE.set()
        await house.judging_is_over()
        assert 5 == len(house.judged)


async def test_the_same_judges_after_a_reload_are_the_same_route(make_world: Any) -> None:
    """So that a reload of an unchanged file forgets nothing."""
    text = _policy("[valid_json, {use: json_schema, schema: {type: object}}, {use: cel, expression: 'true'}]")
    old = make_world(text)
    assert make_world(text, old=old).routes[0] is old.routes[0]
    assert make_world(_policy("[valid_json]"), old=old).routes[0] is not old.routes[0]
