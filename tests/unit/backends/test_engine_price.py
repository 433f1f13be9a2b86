from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends._engine_price import BusyMeter, usd_for


def test_an_hour_costs_what_the_hour_costs() -> None:
    """To the last digit that matters."""
    assert (Decimal("3.6"), Decimal("0.001")) == (usd_for(Decimal("3.6"), 3600.0), usd_for(Decimal("3.6"), 1.0))


def test_time_is_shared_by_those_who_are_there() -> None:
    """One alone pays all of it, two pay half each; an empty engine's time is nobody's."""
    now = [0.0]
    meter = BusyMeter(lambda: now[0], lambda: None)
    now[0] = 5.0
    first = meter.enter()
    now[0] = 7.0
    second = meter.enter()
    now[0] = 11.0
    parts = [meter.leave(first)]
    now[0] = 12.0
    parts.append(meter.leave(second))
    assert [4.0, 3.0] == parts


def test_requests_of_other_processes_pay_their_part() -> None:
    """The engine tells of all of them, a little late: it never has fewer than we know of."""
    now, told = [0.0], [4]
    meter = BusyMeter(lambda: now[0], lambda: told[0])
    entered = meter.enter()
    now[0] = 8.0
    told[0] = 0
    assert 8.0 == meter.leave(entered)
    entered = meter.enter()
    told[0] = 4
    now[0] = 16.0
    assert 2.0 == meter.leave(entered)


@given(steps=st.lists(st.tuples(st.integers(1, 100), st.booleans()), min_size=1, max_size=60))
def test_the_parts_add_up_to_the_busy_time(steps: list[tuple[int, bool]]) -> None:
    """Whoever comes and goes, and when."""
    now, busy_s, parts = [0.0], 0.0, 0.0
    meter = BusyMeter(lambda: now[0], lambda: None)
    inside: list[float] = []
    for seconds, comes in [*steps, *[(1, False)] * 60]:
        now[0] += seconds
        busy_s += seconds if inside else 0
        if comes:
            inside.append(meter.enter())
        elif inside:
            parts += meter.leave(inside.pop(0))
    assert pytest.approx(busy_s) == parts
