from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.price import PICO_USD_PER_USD, CostDoubt, Usage
from gateway.stores.row_values import counts, label, pico_usd
from gateway.stores.rows import ATTEMPT_COLUMNS, REQUEST_COLUMNS, rows_of
from gateway.types import Attempt, LedgerEntry, Status


@pytest.mark.parametrize(
    ("cost_usd", "expected"),
    [
        (None, None),
        (Decimal(0), 0),
        (Decimal("0.000000000001"), 1),
        (Decimal("0.0000000000005"), 0),
        (Decimal("0.0000000000015"), 2),
        (Decimal("1.25"), 1_250_000_000_000),
        (Decimal("NaN"), None),
        (Decimal("Infinity"), None),
    ],
)
def test_dollars_become_whole_pico_dollars(cost_usd: Decimal | None, expected: int | None) -> None:
    """Half goes to even; what is no number is unknown."""
    assert expected == pico_usd(cost_usd)


@given(
    tokens=st.integers(0, 10**6),
    price_usd_per_mtok=st.decimals(0, 1000, places=6, allow_nan=False, allow_infinity=False),
)
def test_token_prices_are_kept_exactly(tokens: int, price_usd_per_mtok: Decimal) -> None:
    """A price per million tokens with six decimals has no fraction of a pico-dollar: bills add up to the last digit."""
    cost_usd = tokens * price_usd_per_mtok / 1_000_000
    assert cost_usd == Decimal(pico_usd(cost_usd) or 0) / PICO_USD_PER_USD


def test_values_are_plain(make_entry: Callable[..., LedgerEntry], make_attempt: Callable[..., Attempt]) -> None:
    """No status, no operation: SQLite's module takes what is a text and no more, and asks around for others."""
    doubted = make_attempt(cost_doubts=(CostDoubt.ESTIMATED_USAGE,), cost_source="policy")
    rows = rows_of(make_entry(attempts=(make_attempt(status=Status.UPSTREAM_FAILED), doubted)))
    found = {type(value) for row in (rows.request, *rows.attempts) for value in row}
    assert {str, int, float, type(None)} >= found


@pytest.mark.parametrize("status", [Status.OK, Status.TRUNCATED, Status.UPSTREAM_FAILED])
@pytest.mark.parametrize("usage", [None, Usage(prompt_tokens=2**70, output_tokens=5, stated_usd=Decimal("0.1"))])
def test_a_single_attempt_has_the_row_that_it_has_behind_others(
    make_entry: Callable[..., LedgerEntry], make_attempt: Callable[..., Attempt], status: Status, usage: Usage | None
) -> None:
    """What it took is not added up then: the same figures as where one before it was refused for nothing."""
    refused = make_attempt(status=Status.UPSTREAM_FAILED, usage=None, cost_usd=Decimal(0))
    last = make_attempt(status=status, usage=usage, last_token_s=102.0, bursts=3)
    entry = make_entry(attempts=(last,))
    alone = rows_of(replace(entry, outcome=replace(entry.outcome, status=status)))
    behind = rows_of(replace(entry, attempts=(refused, last), outcome=replace(entry.outcome, status=status)))
    counted, found = (dict(zip(REQUEST_COLUMNS, rows.request_row(), strict=True)) for rows in (behind, alone))
    assert {**counted, "attempts": 1} == found
    assert (1, *behind.attempts[1][1:]) == alone.attempts[0]


@given(numbers=st.tuples(*[st.integers(-(2**66), 2**66)] * 3))
def test_counts_fit_64_bits(numbers: tuple[int, int, int]) -> None:
    """Each alone, whatever the others are; those that fit are what they were."""
    most = 2**63 - 1
    assert tuple(min(max(number, -most), most) for number in numbers) == counts(*numbers)


def test_labels_are_bounded_and_have_utf_8() -> None:
    """A lone surrogate has none, and a model's name is as long as its client likes."""
    texts = ["m" * 300, "a\ud800b", "plain", "ä" * 256]
    expected = ["m" * 256, "a?b", "plain", "ä" * 256]
    assert expected == [label(text) for text in texts]


@pytest.mark.parametrize("odd", ["m" * 300, "caf\u00e9 \ud800"])
def test_every_name_is_a_label(
    make_entry: Callable[..., LedgerEntry], make_attempt: Callable[..., Attempt], odd: str
) -> None:
    """Wherever it stands, and whatever the other names are."""
    entry = make_entry(attempts=(make_attempt(backend=odd), make_attempt(model=odd, answered_model=odd)))
    assert entry.request is not None
    entry = replace(
        entry,
        arrival=replace(entry.arrival, tenant=odd),
        request=replace(entry.request, model=odd),
        route=odd,
        outcome=replace(entry.outcome, finish_reason=odd),
    )
    rows = rows_of(entry)
    request = dict(zip(REQUEST_COLUMNS, rows.request_row(), strict=True))
    first, second = (dict(zip(ATTEMPT_COLUMNS, row, strict=True)) for row in rows.attempts)
    named = [request[column] for column in ("tenant", "model", "route", "finish_reason", "backend_model")]
    assert [label(odd)] * 8 == [*named, first["backend"], second["model"], second["answered_model"]]
