"""What holds for every policy of a family, whatever it is asked about."""

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admission import Unbounded
from gateway.errors import ClientError
from gateway.ports import BatchScorer
from gateway.rules import plugins
from gateway.types import Bill, Candidate, ChatRequest, Context
from tests.contract.plugins_under_test import built, named
from tests.contract.policy_inputs import candidates, contexts, requests

Make = Callable[..., Any]


@named("filter")
def test_a_filter_says_whether_the_client_is_to_blame(family: str, name: str) -> None:
    """With one of its own errors, or `None`."""
    refusal = plugins.load(family, name).refusal  # type: ignore[attr-defined]  # of the port
    assert refusal is None or issubclass(refusal, ClientError)


@named("filter")
@given(ctx=contexts, candidate=candidates)
def test_a_filter_is_pure_and_gives_its_reason_in_words(
    family: str, name: str, ctx: Context, candidate: Candidate
) -> None:
    """The same inputs, the same answer; and nothing is changed."""
    before = copy.deepcopy((ctx, candidate))
    for policy in built(family, name):
        reason = policy.exclude(ctx, candidate)
        assert reason == policy.exclude(ctx, candidate)
        assert reason is None or (isinstance(reason, str) and reason.strip())
    assert before == (ctx, candidate)


@named("cost")
@given(ctx=contexts, some=st.lists(candidates, max_size=4))
def test_a_term_is_pure_finite_and_never_negative(family: str, name: str, ctx: Context, some: list[Candidate]) -> None:
    """In whatever order the candidates come: one bill does not know of another."""
    before = copy.deepcopy((ctx, some))
    for policy in built(family, name):
        bills = [policy.usd(ctx, candidate) for candidate in some]
        assert bills == [policy.usd(ctx, candidate) for candidate in reversed(some)][::-1]
        assert all(type(usd) is float and math.isfinite(usd) and usd >= 0 for usd in bills)
        if isinstance(policy, BatchScorer):
            assert bills == policy.usd_each(ctx, some)
    assert before == (ctx, some)


@named("rank")
@given(
    ctx=contexts,
    some=st.lists(st.tuples(candidates, st.floats(allow_infinity=True, allow_nan=False)), max_size=5),
    shuffled=st.randoms(use_true_random=False),
)
def test_a_rank_orders_and_neither_loses_nor_invents(
    family: str, name: str, ctx: Context, some: list[tuple[Candidate, float]], shuffled: Any
) -> None:
    """And the order in which the bills come in decides nothing, where candidates can be told apart."""
    distinct = {(candidate.backend, candidate.model): (candidate, usd) for candidate, usd in some}.values()
    bills = tuple(Bill(candidate=candidate, terms=(("t", usd),), total_usd=usd) for candidate, usd in distinct)
    for policy in built(family, name):
        order = policy.order(ctx, bills)
        assert isinstance(order, tuple)
        assert sorted(map(id, bills)) == sorted(map(id, order))
        assert order == policy.order(ctx, tuple(shuffled.sample(bills, len(bills))))


@named("classify")
@given(asked=requests)
def test_a_forecast_is_never_negative_in_order_and_within_the_cap(family: str, name: str, asked: ChatRequest) -> None:
    """For any well-formed request."""
    for policy in built(family, name):
        forecast = policy.forecast(asked)
        assert 0 <= forecast.prompt_tokens
        assert 0 <= forecast.output_tokens_p50 <= forecast.output_tokens_p90
        assert all(type(value) is int for value in (forecast.prompt_tokens, forecast.output_tokens_p90))
        if asked.max_tokens is not None:
            assert forecast.output_tokens_p90 <= asked.max_tokens * asked.n
        assert forecast == policy.forecast(asked)


@named("admit")
async def test_an_admitter_holds_a_place_and_gives_it_back(make_context: Make, family: str, name: str) -> None:
    """Whether the block ends well or not, as often as one likes."""
    for policy in built(family, name):
        async with policy.admit(make_context(), Unbounded()):
            assert 1 == policy.in_flight
        for _ in range(1000):
            with pytest.raises(ZeroDivisionError):
                async with policy.admit(make_context(), Unbounded()):
                    raise ZeroDivisionError
        assert (0, 0) == (policy.in_flight, policy.waiting)
