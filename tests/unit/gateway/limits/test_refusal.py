"""What clients are told of their limits."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gateway.errors import LimitExceeded, Overloaded, Rejected
from gateway.limits.allowance import Allowance
from gateway.limits.borrower import Borrower
from gateway.limits.calendar import Window, read_period
from gateway.limits.gate import Gate
from gateway.limits.limit import FOREVER, NANO, Claim, Limit, Measure
from gateway.limits.rate_headers import rate_headers
from gateway.limits.refusal import refusal
from gateway.stores.sqlite_lender import SqliteLender


def _allowance(measure: Measure, amount: int, *, spent: int = 0, held: int = 0, **limit: Any) -> Allowance:
    fields = {"scope": "tenant:acme", "period": read_period("minute"), "zone": ZoneInfo("UTC")} | limit
    window = FOREVER if fields["period"] is None else Window(960, 1020)
    allowance = Allowance(Limit(measure=measure, amount=amount, **fields), window)
    allowance.spent, allowance.held = spent, held
    return allowance


@pytest.mark.parametrize(
    ("allowance", "amount", "words", "retry_after_s"),
    [
        (
            _allowance(Measure.REQUESTS, 60, spent=60),
            1,
            (
                "the limit of tenant `acme` is 60 requests per minute: "
                "0 requests left until 1970-01-01T00:17:00+00:00, and this request may take 1 request"
            ),
            20.0,
        ),
        (
            _allowance(
                Measure.USD,
                5 * NANO,
                spent=4 * NANO,
                period=read_period("month"),
                scope="team:research",
                zone=ZoneInfo("Asia/Tokyo"),
            ),
            2 * NANO,
            (
                "the limit of team `research` is $5.0000 per month: "
                "$1.0000 left until 1970-01-01T09:17:00+09:00, and this request may take $2.0000"
            ),
            20.0,
        ),
        (
            _allowance(Measure.TOKENS, 1000),
            1001,
            (
                "the limit of tenant `acme` is 1,000 tokens per minute, "
                "and this request alone is expected to take 1,001 tokens"
            ),
            None,
        ),
        (
            _allowance(Measure.TOKENS, 1000, spent=300, held=600),
            700,
            (
                "the limit of tenant `acme` is 1,000 tokens per minute: 100 tokens left beside what requests under way "
                "have reserved, and this request may take 700 tokens"
            ),
            5.0,
        ),
        (
            _allowance(Measure.CONCURRENT, 2, held=2, period=None),
            1,
            "the limit of tenant `acme` is 2 requests at a time, which are under way",
            1.0,
        ),
    ],
    ids=["requests", "money", "never", "reserved", "concurrent"],
)
def test_a_refusal_says_whose_limit_how_much_and_when(
    allowance: Allowance, amount: int, words: str, retry_after_s: float | None
) -> None:
    """429, and a time to come back only where that can help."""
    error = refusal(allowance, amount, unix_s=1000.0)
    assert (LimitExceeded, words, retry_after_s) == (type(error), error.message, error.retry_after_s)


@pytest.mark.parametrize("scope", ["model:gpt-*", "backend:groq"])
def test_a_limit_that_is_nobodys_own_is_ours(scope: str) -> None:
    """503: who met it did nothing wrong."""
    error = refusal(_allowance(Measure.REQUESTS, 1, spent=1, scope=scope), 1, unix_s=1000.0)
    assert (Overloaded, 503) == (type(error), error.http_status)


def test_the_tightest_limit_of_each_kind_speaks() -> None:
    """Of requests and of tokens, the one of which least is left in proportion."""
    allowances = [
        _allowance(Measure.REQUESTS, 1000, spent=10),
        _allowance(Measure.REQUESTS, 10, spent=4, held=5),
        _allowance(Measure.OUTPUT_TOKENS, 100, spent=10),
        _allowance(Measure.USD, 1, spent=1),
    ]
    assert {
        b"x-ratelimit-limit-requests": b"10",
        b"x-ratelimit-remaining-requests": b"1",
        b"x-ratelimit-reset-requests": b"20s",
        b"x-ratelimit-limit-tokens": b"100",
        b"x-ratelimit-remaining-tokens": b"90",
        b"x-ratelimit-reset-tokens": b"20s",
    } == dict(rate_headers(allowances, unix_s=1000.0))


@pytest.mark.parametrize(
    ("left_s", "said"), [(0.25, b"250ms"), (59.9, b"59s"), (60, b"1m"), (3 * 3600 + 61, b"3h1m1s"), (-5, b"0ms")]
)
def test_a_reset_reads_like_openais(left_s: float, said: bytes) -> None:
    """Hours, minutes and seconds, or milliseconds; a window that is over is over now."""
    headers = dict(rate_headers([_allowance(Measure.REQUESTS, 1)], unix_s=1020 - left_s))
    assert said == headers[b"x-ratelimit-reset-requests"]


@pytest.fixture
async def workers(hand_clock: Any, tmp_path: Path) -> AsyncIterator[list[Gate]]:
    """The gates of two workers of one machine."""
    lenders = [SqliteLender(tmp_path / "limits.sqlite3", clock=hand_clock) for _ in range(2)]
    yield [Gate(Borrower(one, replica=f"w{n}", clock=hand_clock), clock=hand_clock) for n, one in enumerate(lenders)]
    for lender in lenders:
        await lender.close()


async def _refused(gate: Gate, limit: Limit, amount: int) -> float | None:
    with pytest.raises(LimitExceeded) as refused:
        await gate.enter("refused", [limit], Claim(**{limit.measure.value: amount}), lasts_s=60)
    return refused.value.retry_after_s


async def test_what_another_worker_has_only_borrowed_is_back_in_seconds(workers: list[Gate]) -> None:
    """It gives back what it does not use with its next beat; what it has used is gone until the period's end."""
    limit = Limit(
        scope="tenant:acme", measure=Measure.REQUESTS, amount=10, period=read_period("day"), zone=ZoneInfo("UTC")
    )
    first, second = workers
    await first.enter("a", [limit], Claim(requests=1), lasts_s=60)
    await first.borrower._tell(first.borrower.book.allowances(), lambda _: 3)
    for number in range(6):
        await second.enter(f"b{number}", [limit], Claim(requests=1), lasts_s=60)
    assert 2.0 == await _refused(second, limit, 1)
    await first.borrower._tell(first.borrower.book.allowances(), lambda _: 0)
    for number in range(3):
        await second.enter(f"c{number}", [limit], Claim(requests=1), lasts_s=60)
    wait_s = await _refused(second, limit, 1)
    assert wait_s is not None
    assert 2.0 < wait_s


async def test_what_another_worker_has_reserved_may_be_back_soon(workers: list[Gate]) -> None:
    """Of tokens a request rarely takes all that was reserved: as with a reservation of one's own."""
    limit = Limit(
        scope="tenant:acme", measure=Measure.OUTPUT_TOKENS, amount=100, period=read_period("day"), zone=ZoneInfo("UTC")
    )
    first, second = workers
    await first.enter("a", [limit], Claim(output_tokens=90), lasts_s=60)
    assert 5.0 == await _refused(second, limit, 20)
    first.leave("a", Claim(output_tokens=90))
    await first.borrower._tell(first.borrower.book.allowances(), lambda _: 0)
    wait_s = await _refused(second, limit, 20)
    assert wait_s is not None
    assert 5.0 < wait_s


@pytest.mark.parametrize("scope", ["tenant:acme", "model:m"])
async def test_of_several_limits_the_one_that_takes_longest_speaks(hand_clock: Any, tmp_path: Path, scope: str) -> None:
    """Before it, coming back would only meet that one; one that can never be met takes for ever."""
    lender = SqliteLender(tmp_path / "limits.sqlite3", clock=hand_clock)
    gate = Gate(Borrower(lender, replica="only", clock=hand_clock), clock=hand_clock)
    fields: dict[str, Any] = {"scope": scope, "zone": ZoneInfo("UTC")}
    minute, day = (
        Limit(measure=Measure.REQUESTS, amount=1, period=read_period(period), **fields) for period in ("minute", "day")
    )
    none = Limit(measure=Measure.CONCURRENT, amount=0, period=None, **fields)
    await gate.enter("first", [minute, day], Claim(requests=1), lasts_s=60)
    for limits, phrase in (([minute, day], "per day"), ([day, none], "at a time")):
        with pytest.raises(Rejected, match=phrase):
            await gate.enter("second", limits, Claim(requests=1, concurrent=1), lasts_s=60)
    await lender.close()
