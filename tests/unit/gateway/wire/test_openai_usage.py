from decimal import Decimal
from typing import Any

import pytest

from gateway.price import Usage
from gateway.wire.openai_usage import MAX_TOKENS, read_usage, usage_object


def test_what_is_written_is_what_is_read() -> None:
    """All four counts go there and back."""
    usage = Usage(prompt_tokens=10, output_tokens=7, cached_tokens=4, reasoning_tokens=2)
    assert usage == read_usage(usage_object(usage))


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"prompt_tokens": "12", "completion_tokens": "x"},
        {"prompt_tokens": -1, "completion_tokens": -5},
        {"prompt_tokens": True, "completion_tokens": None},
        {"prompt_tokens": 1, "completion_tokens": MAX_TOKENS + 1},
        {"prompt_tokens": 10**400, "completion_tokens": 10**400},
        {"prompt_tokens": 1e308, "completion_tokens": 1},
        {"prompt_tokens": 1, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 10**30}},
    ],
)
def test_counts_that_are_none_or_absurd_are_nobodys(value: Any) -> None:
    """They would be billed, learned from and summed up; the meter estimates instead."""
    assert read_usage(value) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"prompt_tokens": 5}, Usage(prompt_tokens=5)),
        ({"completion_tokens": 5.0}, Usage(output_tokens=5)),
        ({"prompt_tokens": -3, "completion_tokens": 5}, Usage(output_tokens=5, inconsistent=True)),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}, Usage(prompt_tokens=9, cached_tokens=4)),
        (
            {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": -4}},
            Usage(prompt_tokens=9, inconsistent=True),
        ),
        (
            {"prompt_tokens": 9, "prompt_cache_hit_tokens": 90},
            Usage(prompt_tokens=9, cached_tokens=9, inconsistent=True),
        ),
        ({"prompt_tokens": MAX_TOKENS, "completion_tokens": 0}, Usage(prompt_tokens=MAX_TOKENS)),
    ],
)
def test_one_good_count_is_enough(value: Any, expected: Usage) -> None:
    """What is missing beside it is zero; what cannot be is cut to what can, and marked."""
    assert expected == read_usage(value)


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        (0.0000123, Decimal("0.0000123")),
        (0, Decimal(0)),
        (3, Decimal(3)),
        (-1, None),
        (True, None),
        ("0.1", None),
        ({"total_cost": 1}, None),
        (1e300, None),
        (float("nan"), None),
        (None, None),
    ],
)
def test_what_the_upstream_says_it_costs_is_carried(cost: Any, expected: Decimal | None) -> None:
    """Digit by digit, where it is an amount."""
    usage = read_usage({"prompt_tokens": 1, "cost": cost})
    assert usage is not None
    assert expected == usage.stated_usd
