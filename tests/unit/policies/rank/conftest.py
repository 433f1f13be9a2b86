"""Bills of candidates that differ in what a rule looks at."""

from collections.abc import Callable
from typing import Any

import pytest

from gateway.types import Bill, Context


@pytest.fixture
def bills(make_bill: Callable[..., Bill]) -> Callable[..., tuple[Bill, ...]]:
    """One bill a candidate, by its name, with the facts that are given for it."""

    def make(**facts: dict[str, Any]) -> tuple[Bill, ...]:
        return tuple(make_bill(0.0, backend=name, **fields) for name, fields in facts.items())

    return make


@pytest.fixture
def ranked(make_context: Callable[..., Context], make_request: Callable[..., Any]) -> Callable[..., list[str]]:
    """The candidates' names in the order of a rank; ``request_id`` makes it another request of the same words."""

    def order(
        policy: Any,
        bills: tuple[Bill, ...],
        *,
        request_id: str = "req-1",
        prompt_tokens: int = 1000,
        text: str = "hello",
    ) -> list[str]:
        ctx = make_context(make_request(text, request_id=request_id), prompt_tokens=prompt_tokens)
        return [bill.candidate.backend for bill in policy.order(ctx, bills)]

    return order


@pytest.fixture
def firsts(ranked: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Who is first for each of many requests."""

    def first(policy: Any, bills: tuple[Bill, ...], requests: int = 200, **options: Any) -> list[str]:
        return [ranked(policy, bills, request_id=f"r{number}", **options)[0] for number in range(requests)]

    return first
