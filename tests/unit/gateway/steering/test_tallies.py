"""Sums that several replicas add to."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.steering import tallies as module
from gateway.steering.tallies import Tallies
from gateway.stores.memory import MemoryShared

DAY_S = 86_400.0


def test_what_is_added_adds_up() -> None:
    """Number by number; of a name that nobody knows there is nothing."""
    sums = Tallies("a")
    sums.add("x", (1.0, 2.0), at_unix_s=10.0)
    sums.add("x", (0.5, -2.0), at_unix_s=20.0)
    assert [1.5, 0.0] == sums.total("x", now_unix_s=30.0)
    assert [] == sums.total("y", now_unix_s=30.0)


def test_the_past_counts_less() -> None:
    """Half after a half-life; what is told late of long ago weighs what it would have weighed by now."""
    early, late = Tallies("a"), Tallies("b")
    early.add("x", (1.0,), at_unix_s=0.0, half_life_s=DAY_S)
    early.add("x", (1.0,), at_unix_s=DAY_S, half_life_s=DAY_S)
    late.add("x", (1.0,), at_unix_s=DAY_S, half_life_s=DAY_S)
    late.add("x", (1.0,), at_unix_s=0.0, half_life_s=DAY_S)
    assert [0.75] == early.total("x", now_unix_s=2 * DAY_S, half_life_s=DAY_S)
    assert [0.75] == late.total("x", now_unix_s=2 * DAY_S, half_life_s=DAY_S)


def test_a_clock_that_goes_back_makes_nothing_weigh_more() -> None:
    """What is younger than now counts once."""
    sums = Tallies("a")
    sums.add("x", (1.0,), at_unix_s=DAY_S, half_life_s=DAY_S)
    assert [1.0] == sums.total("x", now_unix_s=0.0, half_life_s=DAY_S)


def _met(clock: Any, *others: Tallies) -> None:
    shared = MemoryShared(clock)
    for one in others:
        one.share(shared)
    for _ in range(2):
        for one in others:
            one.meet()


def test_replicas_come_to_the_same_sum(clock: Any) -> None:
    """Each adds its own; what one has taken back is taken back for all."""
    a, b = Tallies("a"), Tallies("b")
    a.add("x", (1.0,), at_unix_s=0.0)
    b.add("x", (2.0,), at_unix_s=0.0)
    _met(clock, a, b)
    b.add("x", (-0.5,), at_unix_s=1.0)
    _met(clock, a, b)
    assert [2.5] == a.total("x", now_unix_s=1.0) == b.total("x", now_unix_s=1.0)


def test_a_restart_loses_nothing_and_counts_nothing_twice(clock: Any) -> None:
    """Its record and what the others still know of it are the same parts."""
    a, b = Tallies("a"), Tallies("b")
    a.add("x", (1.0,), at_unix_s=0.0)
    _met(clock, a, b)
    again, twin = Tallies("c"), Tallies("d")
    for restarted in (again, twin):
        restarted.resume(a.record())
    again.add("x", (3.0,), at_unix_s=0.0)
    _met(clock, again, twin, b)
    assert [[4.0]] * 3 == [sums.total("x", now_unix_s=0.0) for sums in (again, twin, b)]


def test_a_store_that_has_come_back_empty_is_told_anew(clock: Any) -> None:
    """After a while, without anything having changed: whoever starts then finds it."""
    old, late = Tallies("a"), Tallies("b")
    old.add("x", (1.0,), at_unix_s=0.0)
    _met(clock, old)
    empty = MemoryShared(clock)
    old._shared = empty
    late.share(empty)
    for _ in range(module.TOLD_AGAIN):
        old.meet()
    late.meet()
    assert [1.0] == late.total("x", now_unix_s=0.0)


def test_what_cannot_be_read_is_left_alone(clock: Any) -> None:
    """A replica of another version is no reason to stop; a record that is none is refused."""
    sums, shared = Tallies("a"), MemoryShared(clock)
    shared.put("tally/z/1", '{"of": "another version"}', 10.0)
    shared.put("other/z", '["z","x",1,0.0,[1.0]]', 10.0)
    sums.share(shared)
    sums.meet()
    assert [] == sums.names("")
    with pytest.raises(ValueError, match="no record of sums"):
        sums.resume(b"nonsense")


def test_names_and_seats_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ones that were quiet longest are forgotten."""
    monkeypatch.setattr(module, "MOST_NAMES", 2)
    sums = Tallies("a")
    for at, name in enumerate("xyz"):
        sums.add(name, (1.0,), at_unix_s=float(at))
    assert ["y", "z"] == sums.names("")
    monkeypatch.setattr(module, "MOST_SEATS", 2)
    other = Tallies("e")
    for at, seat in enumerate("bcd"):
        one = Tallies(seat)
        one.add("x", (1.0,), at_unix_s=float(at))
        other.resume(one.record())
    assert {"c", "d"} == {part.seat for part in other.parts("x")}


@given(
    changes=st.lists(st.tuples(st.integers(0, 2), st.integers(-5, 5), st.integers(0, 10)), max_size=20),
    order=st.permutations([0, 1, 2]),
)
def test_the_order_in_which_replicas_hear_of_each_other_does_not_matter(
    changes: list[tuple[int, int, int]], order: list[int]
) -> None:
    """All come to the sum of all that was added, whoever heard of whom first and how often."""
    replicas = [Tallies(seat) for seat in "abc"]
    for at, amount, unix_s in changes:
        replicas[at].add("x", (float(amount),), at_unix_s=float(unix_s))
    records = [replica.record() for replica in replicas]
    for replica in replicas:
        for at in (*order, *reversed(order)):
            replica.resume(records[at])
    expected = float(sum(amount for _, amount, _ in changes))
    for replica in replicas:
        assert expected == sum(replica.total("x", now_unix_s=0.0))
