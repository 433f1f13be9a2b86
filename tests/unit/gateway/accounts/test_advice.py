import random
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.accounts.advice import LEAST_DAYS, LEAST_REQUESTS, LEAST_TASKS, Advised, advise, line_through
from gateway.accounts.selection import Selection
from gateway.price import Usage
from gateway.task import Task
from gateway.types import Status

SEED = 20261130
NOW_UNIX_S = 1_700_000_000.0
DAY_S = 86_400


async def _advised(books: Any) -> Advised:
    return await advise(books.tables, Selection(), now_unix_s=NOW_UNIX_S)


def _changes(found: Advised) -> list[str]:
    return [advice.change for advice in found.advice]


async def test_of_an_empty_ledger_nothing_is_said(books: Any) -> None:
    """And nothing breaks."""
    found = await _advised(books)
    assert ((), (), ()) == (found.time, found.money, found.advice)


async def test_where_the_data_do_not_carry_it_nothing_is_advised(books: Any, make_entry: Any) -> None:
    """A handful of requests is no evidence, whatever they look like."""
    await books.take(*[make_entry(number) for number in range(10)])
    assert () == (await _advised(books)).advice


async def test_reading_and_the_network_are_told_apart_by_a_line(books: Any, make_entry: Any, make_attempt: Any) -> None:
    """A first token after 0.2 s and 1 s a thousand tokens: the slope is the prefill, what is left the network."""
    draw = random.Random(SEED)  # noqa: S311  # made-up times, the same in each run
    entries = []
    for number in range(2 * LEAST_REQUESTS):
        tokens = draw.randrange(100, 4000)
        first_s = 100.0 + 0.2 + tokens / 1000 + draw.gauss(0, 0.02)
        attempt = make_attempt(
            started_s=100.0,
            first_token_s=first_s,
            last_token_s=first_s + 1,
            ended_s=first_s + 1,
            usage=Usage(prompt_tokens=tokens + 50, cached_tokens=50, output_tokens=51),
        )
        entries.append(make_entry(number, attempts=(attempt,), ended_s=first_s + 1))
    await books.take(*entries)
    found = await _advised(books)
    parts = {part.part: part for part in found.time}
    assert {"queue", "prefill", "network", "decode", "end"} == parts.keys()
    assert pytest.approx(0.2, abs=0.02) == parts["network"].seconds
    assert pytest.approx(1.0, abs=1e-6) == parts["decode"].seconds
    assert pytest.approx(1.0) == sum(part.share for part in found.time)
    (advice,) = found.advice
    assert ("shorter prompts", "groq", 2 * LEAST_REQUESTS) == (advice.change, advice.subject, advice.n)
    assert advice.interval is not None
    assert advice.interval[0] < 1.0 < advice.interval[1]
    assert pytest.approx(1.0, abs=0.01) == advice.value


async def test_a_wait_in_the_gateway_calls_for_places(books: Any, make_entry: Any, make_attempt: Any) -> None:
    """Half of the time before the backend got it."""
    attempt = make_attempt(started_s=101.0, first_token_s=101.2, last_token_s=102.0, ended_s=102.0)
    await books.take(*[make_entry(n, attempts=(attempt,), ended_s=102.0) for n in range(LEAST_REQUESTS)])
    (advice,) = (await _advised(books)).advice
    assert ("more places, or a backend to spill to", 1.0) == (advice.change, advice.value)


async def test_the_cheaper_success_is_named_where_the_intervals_do_not_meet(
    books: Any, make_entry: Any, make_attempt: Any
) -> None:
    """Cheap and often right against dear and seldom right; with few judged tasks, silence."""
    entries, told = [], []
    for number in range(4 * LEAST_TASKS):
        cheap = number % 2
        attempt = make_attempt(
            backend="cheap" if cheap else "dear", cost_usd=Decimal("0.001" if cheap else "0.01"), first_token_s=None
        )
        entry = make_entry(number, attempts=(attempt,))
        entries.append(replace(entry, arrival=replace(entry.arrival, task=Task(id=f"t{number}"))))
        told.append((f"t{number}", bool(cheap) or number % 4 == 0))
    await books.take(*entries)
    for task, success in told[:LEAST_TASKS]:
        await books.judge("acme", task, success)
    assert [] == _changes(await _advised(books))
    for task, success in told[LEAST_TASKS:]:
        await books.judge("acme", task, success)
    (advice,) = (await _advised(books)).advice
    assert ("another backend", "route default: cheap in place of dear") == (advice.change, advice.subject)
    assert pytest.approx(0.019) == advice.value
    assert advice.interval is not None
    assert advice.interval[0] < advice.value < advice.interval[1]


async def test_prompts_that_go_on_and_are_not_cached_call_for_reuse(
    books: Any, make_entry: Any, make_attempt: Any
) -> None:
    """Where each prompt of a task begins with the one before it; and where the task waits, for the application."""
    entries = []
    for task in range(LEAST_TASKS):
        for call in range(3):
            usage = Usage(prompt_tokens=1000 * (call + 1), output_tokens=50)
            attempt = make_attempt(usage=usage, first_token_s=None)
            entry = make_entry(3 * task + call, attempts=(attempt,))
            moment = NOW_UNIX_S + task * 1000 + call * 100
            arrival = replace(entry.arrival, task=Task(id=f"t{task}"), received_unix_s=moment)
            entries.append(replace(entry, arrival=arrival))
    await books.take(*entries)
    reuse, application = (await _advised(books)).advice
    assert ("prefix reuse", 2 * LEAST_TASKS) == (reuse.change, reuse.n)
    assert pytest.approx((1050 + 2050) / 6000) == reuse.value
    assert ("the application itself", LEAST_TASKS) == (application.change, application.n)
    assert pytest.approx(202.5 - 3 * 2.5) == application.value


async def test_steady_spending_is_what_an_own_machine_may_cost(books: Any, make_entry: Any, make_attempt: Any) -> None:
    """Of whole days, with their spread; lost answers that were paid are named beside it."""
    entries = []
    for day in range(LEAST_DAYS + 2):
        for number in range(15):
            lost = number == 0
            attempt = make_attempt(
                status=Status.TRUNCATED if lost else Status.OK,
                cost_usd=Decimal(2 if lost else 1) + Decimal(day % 2) / 10,
                first_token_s=None,
            )
            entry = make_entry(100 * day + number, attempts=(attempt,))
            if lost:
                entry = replace(entry, outcome=replace(entry.outcome, status=Status.TRUNCATED))
            arrival = replace(entry.arrival, received_unix_s=NOW_UNIX_S + day * DAY_S)
            entries.append(replace(entry, arrival=arrival))
    await books.take(*entries)
    waste, own = (await _advised(books)).advice
    assert ("less waste", 15 * (LEAST_DAYS + 2)) == (waste.change, waste.n)
    assert "truncated" in waste.why
    assert ("own capacity", LEAST_DAYS) == (own.change, own.n)
    assert own.interval is not None
    assert own.interval[0] < own.value < own.interval[1]


def test_a_line_needs_points_that_differ() -> None:
    """Two points, or many in one place, have no slope that anybody could be sure of."""
    assert line_through(2, 3, 5, 5, 3, 5) is None
    assert line_through(5, 5, 5, 5, 5, 5) is None
    fit = line_through(3, 3, 5, 8, 6, 14)  # (0, 1), (1, 2), (2, 3)
    assert fit is not None
    assert (1.0, 1.0, 0.0) == (fit.at_zero, fit.slope, fit.error)
