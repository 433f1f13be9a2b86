from hypothesis import given
from hypothesis import strategies as st

from gateway.stores.pruning_clock import PruningClock

STEPS = st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 4e9)), min_size=1, max_size=20)


@given(start_unix_s=st.floats(0, 4e9), steps=STEPS)
def test_it_is_never_ahead_of_a_row_nor_faster_than_time(start_unix_s: float, steps: list[tuple[float, float]]) -> None:
    """However the wall clock jumps, after a minute no more than a minute's rows have become too old."""
    monotonic_s = [1000.0]
    clock = PruningClock(lambda: monotonic_s[0])
    clock.set(start_unix_s)
    for later_s, newest_unix_s in steps:
        monotonic_s[0] += later_s
        read_s = clock.unix_s(newest_unix_s)
        assert read_s <= newest_unix_s
        assert read_s <= start_unix_s + (monotonic_s[0] - 1000.0) + 1e-3


def test_it_goes_on_after_a_jump_that_is_taken_back() -> None:
    """A wall clock that was wrong for an hour changes nothing afterwards."""
    monotonic_s = [0.0]
    clock = PruningClock(lambda: monotonic_s[0])
    clock.set(5000.0)
    monotonic_s[0] = 10.0
    assert [5010.0, 4000.0, 5010.0] == [clock.unix_s(newest) for newest in (9e9, 4000.0, 5010.0)]
