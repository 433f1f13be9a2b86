from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.stores.memory import MemoryShared


def test_value_is_there_until_its_time_is_up(clock: Any) -> None:
    """A value comes with the seconds that it has left, and is gone when they are over."""
    store = MemoryShared(clock)
    store.put("cool:groq", "429", 10.0)
    clock.now += 4.0
    assert ("429", 6.0) == store.get("cool:groq")
    clock.now += 6.0
    assert store.get("cool:groq") is None
    assert 0 == len(store)


def test_putting_again_replaces_value_and_time(clock: Any) -> None:
    """The last word counts."""
    store = MemoryShared(clock)
    store.put("k", "old", 1.0)
    store.put("k", "new", 9.0)
    assert ("new", 9.0) == store.get("k")


def test_no_time_to_live_forgets(clock: Any) -> None:
    """A value that would expire at once takes its predecessor with it."""
    store = MemoryShared(clock)
    store.put("k", "v", 5.0)
    store.put("k", "v", 0.0)
    assert store.get("k") is None


def test_oldest_put_goes_first(clock: Any) -> None:
    """Above its capacity the store forgets what was put longest ago; putting again makes young."""
    store = MemoryShared(clock, capacity=2)
    for key in ("a", "b", "a", "c"):
        store.put(key, key, 60.0)
    assert (("a", 60.0), None, ("c", 60.0)) == (store.get("a"), store.get("b"), store.get("c"))


@dataclass
class Hand:
    """A clock that each example turns from zero: a fixture would live across examples."""

    now: float = 0.0

    def now_s(self) -> float:
        """Monotonic seconds."""
        return self.now

    def unix_s(self) -> float:
        """Seconds since the epoch."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Moves the time on."""
        self.now += seconds


KEYS = st.sampled_from("abcd")
STEPS = st.one_of(
    st.tuples(st.just("put"), KEYS, st.integers(-1, 5)),
    st.tuples(st.just("get"), KEYS, st.just(0)),
    st.tuples(st.just("pass"), st.just(""), st.integers(1, 3)),
)


@given(steps=st.lists(STEPS, max_size=60), capacity=st.integers(1, 4))
def test_behaves_like_a_list_of_puts(steps: list[tuple[str, str, int]], capacity: int) -> None:
    """Against a plain model: the last puts of different keys, as many as fit, each until its time is up."""
    hand = Hand()
    store = MemoryShared(hand, capacity=capacity)
    model: list[tuple[str, str, float]] = []
    for number, (step, key, amount) in enumerate(steps):
        if step == "put":
            store.put(key, str(number), amount)
            model = [kept for kept in model if kept[0] != key]
            if amount > 0:
                model = [*model, (key, str(number), hand.now + amount)][-capacity:]
        elif step == "pass":
            hand.now += amount
        else:
            live = [(value, ends - hand.now) for name, value, ends in model if name == key and ends > hand.now]
            model = [kept for kept in model if kept[0] != key or kept[2] > hand.now]
            assert (live[0] if live else None) == store.get(key)
        assert len(store) <= capacity


def test_all_values_under_a_prefix_are_there(clock: Any) -> None:
    """Of the keys that begin so, and have not expired."""
    store = MemoryShared(clock)
    for key, ttl_s in (("a/1", 5.0), ("a/2", 1.0), ("b/1", 5.0)):
        store.put(key, key.upper(), ttl_s)
    clock.now += 2.0
    assert ["A/1"] == store.values_under("a/")
