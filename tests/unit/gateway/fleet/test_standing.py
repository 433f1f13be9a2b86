import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.prefix import PrefixIndex
from gateway.fleet.standing import Standing


def _standing() -> Standing:
    return Standing(model="m", cache=PrefixIndex().open())


def _end(standing: Standing, *, failed: bool, now_s: float = 0.0) -> None:
    """An attempt that took no time."""
    if failed:
        standing.failed(dispatched_s=now_s, now_s=now_s)
    else:
        standing.succeeded(now_s)


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1000)), max_size=30))
def test_the_failure_rate_stays_a_share_and_fades(verdicts: list[tuple[bool, float]]) -> None:
    """It is never below zero nor above one, and half a minute without a verdict takes nearly half of it away."""
    standing, now_s = _standing(), 0.0
    for failed, later_s in verdicts:
        now_s += later_s
        _end(standing, failed=failed, now_s=now_s)
        assert 0.0 <= standing.failure_rate(now_s) <= 1.0
    rate, later_rate = standing.failure_rate(now_s), standing.failure_rate(now_s + 30)
    assert rate / 2 <= later_rate <= rate * 0.8


def test_failures_raise_the_rate_and_successes_lower_it() -> None:
    """One is little against the successes that are taken for granted; many in a row are not."""
    standing = _standing()
    rates = [standing.failure_rate(0.0)]
    for failed in [True] * 10 + [False] * 10:
        _end(standing, failed=failed)
        rates.append(standing.failure_rate(0.0))
    assert 0.0 == rates[0]
    assert sorted(rates[:11]) == rates[:11]
    assert pytest.approx([1 / 21, 10 / 30, 10 / 40]) == [rates[1], rates[10], rates[20]]
    assert sorted(rates[10:], reverse=True) == rates[10:]


def test_failures_in_a_row_end_with_a_success() -> None:
    """One answer that ended well takes the whole row back."""
    standing = _standing()
    rows = []
    for failed in (True, True, False, True):
        _end(standing, failed=failed)
        rows.append(standing.failures_in_a_row)
    assert [1, 2, 0, 1] == rows


def test_what_was_under_way_together_fails_once() -> None:
    """Eight failures of one cause are one in the row; the first that was sent off afterwards is the second."""
    standing = _standing()
    longer = [standing.failed(dispatched_s=sent_s, now_s=10.0 + sent_s) for sent_s in range(8)]
    assert [True, *[False] * 7] == longer
    assert standing.failed(dispatched_s=10.0, now_s=11.0)
    assert 2 == standing.failures_in_a_row


def test_a_success_in_between_does_not_make_an_old_failure_new() -> None:
    """The row is over, and what was sent off before its last failure begins no other."""
    standing = _standing()
    standing.failed(dispatched_s=1.0, now_s=10.0)
    standing.succeeded(11.0)
    assert not standing.failed(dispatched_s=2.0, now_s=12.0)
    assert 0 == standing.failures_in_a_row


def test_a_clock_that_jumps_makes_no_old_failure_weigh_more() -> None:
    """Back or forth, the rate stays where it was or fades."""
    standing = _standing()
    _end(standing, failed=True, now_s=1000.0)
    rate = standing.failure_rate(1000.0)
    assert rate == standing.failure_rate(10.0)
    assert 0.0 <= standing.failure_rate(1e9) < rate
