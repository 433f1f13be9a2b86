"""The index of who has been sent which chunks of a prompt."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet import prefix
from gateway.fleet.prefix import BackendCache, PrefixIndex


def _digests(*names: str) -> tuple[bytes, ...]:
    return tuple(name.encode().ljust(16, b".") for name in names)


def _depths(index: PrefixIndex, names: str, *caches: BackendCache, now_s: float = 0.0) -> list[int]:
    return index.depths(_digests(*names), caches, now_s)


def test_each_backend_is_warm_up_to_its_own_longest_prefix() -> None:
    """All in one walk; a backend that never saw any of it is cold."""
    index = PrefixIndex()
    long, short, elsewhere, new = (index.open() for _ in range(4))
    index.read(_digests("a", "b", "c"), long, 0.0)
    index.read(_digests("a"), short, 0.0)
    index.read(_digests("x", "b", "c"), elsewhere, 0.0)
    assert [3, 1, 0, 0] == _depths(index, "abcd", long, short, elsewhere, new)
    assert [0, 3] == _depths(index, "abc", new, long)


def test_a_backend_that_restarts_is_cold_and_the_others_stay_warm() -> None:
    """And who leaves gives its place in the masks to the next one, which inherits nothing."""
    index = PrefixIndex()
    one, two = index.open(), index.open()
    index.read(_digests("a", "b"), one, 0.0)
    index.read(_digests("a"), two, 0.0)
    index.clear(one)
    assert [0, 1] == _depths(index, "ab", one, two)
    index.close(one)
    three = index.open()
    assert one.bit == three.bit
    index.read(_digests("z"), three, 0.0)
    assert [1, 0] == _depths(index, "ab", two, three)
    assert 2 == len(index)


def test_what_comes_from_a_backend_that_has_left_is_not_remembered() -> None:
    """An attempt may land after its backend was taken out of the policy, even when another has its place."""
    index = PrefixIndex()
    gone = index.open()
    index.close(gone)
    heir = index.open()
    index.read(_digests("a"), gone, 0.0)
    assert [0] == _depths(index, "a", heir)
    assert 0 == len(index)


def test_a_prompt_that_was_never_read_is_taken_back_but_not_what_was_there_before() -> None:
    """Only what its sending had added."""
    index = PrefixIndex()
    cache = index.open()
    index.read(_digests("a"), cache, 0.0)
    added = index.sent(_digests("a", "b", "c"), cache, 1.0)
    assert [3] == _depths(index, "abc", cache)
    index.take_back(added, cache)
    assert [1] == _depths(index, "abc", cache)
    assert 1 == len(index)


def test_each_backend_forgets_what_was_sent_to_it_longest_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sending again keeps a prompt; asking does not; what goes elsewhere takes no room here."""
    monkeypatch.setattr(prefix, "FIRST_CAPACITY_BLOCKS", 3)
    index = PrefixIndex()
    cache, other = index.open(), index.open()
    for name in "aba":
        index.read(_digests(name), cache, 0.0)
    index.read(_digests(*"uvwxyz"), other, 0.0)
    _depths(index, "b", cache)
    index.read(_digests("c", "d"), cache, 0.0)
    assert [1], [0] == (_depths(index, "a", cache), _depths(index, "b", cache))
    assert 6 == len(index)


def test_a_chain_loses_its_tail_before_its_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head without its tail is still worth something; a tail without its head can never be matched."""
    monkeypatch.setattr(prefix, "FIRST_CAPACITY_BLOCKS", 3)
    index = PrefixIndex()
    cache = index.open()
    index.read(_digests("a", "b", "c"), cache, 0.0)
    index.read(_digests("x"), cache, 0.0)
    assert [2] == _depths(index, "abc", cache)


def test_all_caches_together_are_bounded_and_the_largest_gives_way() -> None:
    """So that many backends cannot take all the memory."""
    index = PrefixIndex(most_blocks=10)
    small, large = index.open(), index.open()
    index.read(_digests("a", "b"), small, 0.0)
    index.read(_digests(*"cdefghijklmnop"), large, 0.0)
    assert 10 == len(index)
    assert [2] == _depths(index, "ab", small)


def test_where_a_cache_goes_by_time_what_was_not_read_for_so_long_is_gone() -> None:
    """And reading it again keeps it."""
    index = PrefixIndex()
    cache = index.open()
    cache.ttl_s = 300.0
    index.read(_digests("a", "b"), cache, 1000.0)
    index.read(_digests("a"), cache, 1200.0)
    assert [2] == _depths(index, "ab", cache, now_s=1300.0)
    assert [1] == _depths(index, "ab", cache, now_s=1301.0)
    assert [0] == _depths(index, "ab", cache, now_s=1501.0)


def test_a_clock_that_jumps_back_makes_nothing_expire() -> None:
    """It only ever stays warm for longer."""
    index = PrefixIndex()
    cache = index.open()
    cache.ttl_s = 300.0
    index.read(_digests("a"), cache, 1000.0)
    assert [1] == _depths(index, "a", cache, now_s=10.0)


def _cache(held: int, capacity: float = 1000.0) -> BackendCache:
    cache = BackendCache(1)
    cache.capacity_blocks = capacity
    index = PrefixIndex()
    index._caches[1] = cache
    index.read(_digests(*(str(number) for number in range(held))), cache, 0.0)
    cache.reports = True
    return cache


def test_an_engine_that_has_less_than_was_thought_is_taken_for_smaller() -> None:
    """Never smaller than what is known to have been added since it last had the lost end."""
    cache = _cache(900)
    for _ in range(60):
        assert not cache.learn(believed_blocks=10, found_blocks=1, distance_blocks=600)
    assert 600 <= cache.capacity_blocks < 610


def test_an_engine_that_has_more_than_was_thought_is_taken_for_larger() -> None:
    """Where the picture of it was full; else it has other reasons."""
    cache = _cache(1000)
    for _ in range(60):
        cache.learn(believed_blocks=0, found_blocks=10, distance_blocks=None)
    assert cache.capacity_blocks > 1000
    half_empty = _cache(100)
    half_empty.learn(believed_blocks=0, found_blocks=10, distance_blocks=None)
    assert 1000 == half_empty.capacity_blocks


@pytest.mark.parametrize("distance_blocks", [None, 600])
def test_silence_and_prompts_that_were_still_being_read_say_nothing(distance_blocks: int | None) -> None:
    """Who never reports a cached token may just not report; who was asked too soon could not have it yet."""
    cache = _cache(900)
    cache.reports = distance_blocks is None
    for _ in range(10):
        assert not cache.learn(believed_blocks=10, found_blocks=0, distance_blocks=distance_blocks)
    assert 1000 == cache.capacity_blocks


def test_a_provider_that_goes_by_time_says_nothing_of_its_room() -> None:
    """A miss there means that it was too late, or on another machine."""
    cache = _cache(900)
    cache.ttl_s = 300.0
    for _ in range(10):
        assert not cache.learn(believed_blocks=10, found_blocks=0, distance_blocks=600)
    assert 1000 == cache.capacity_blocks


def test_an_engine_that_has_nothing_of_what_it_had_read_three_times_has_restarted() -> None:
    """Two are chance, and one hit in between begins the count anew."""
    cache = _cache(900)
    found = [0, 0, 5, 0, 0, 0]
    restarted = [cache.learn(believed_blocks=5, found_blocks=blocks, distance_blocks=600) for blocks in found]
    assert [False, False, False, False, False, True] == restarted


@given(claims=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 10**9), st.integers(0, 10**9)), max_size=200))
def test_a_backend_that_lies_can_only_move_its_own_capacity_and_within_bounds(
    claims: list[tuple[int, int, int]],
) -> None:
    """Whatever it says, it is remembered for between 64 and 65,536 chunks."""
    cache = _cache(950)
    for believed, found, distance in claims:
        cache.learn(believed_blocks=believed, found_blocks=found, distance_blocks=distance)
        assert 64 <= cache.capacity_blocks <= 65_536


@pytest.mark.parametrize("seed", range(20))
def test_the_index_never_claims_more_than_was_sent_and_exactly_that_while_there_is_room(seed: int) -> None:
    """Against a plain set per backend, through random sends, reads, restarts and departures."""
    dice = random.Random(seed)  # noqa: S311  # a repeatable shuffle, no secret
    roomy = seed % 2 == 0
    index = PrefixIndex(10_000 if roomy else 12)
    caches = [index.open() for _ in range(5)]
    seen: dict[int, set[bytes]] = {at: set() for at in range(5)}
    for _ in range(300):
        digests = _digests(*(str(dice.randrange(3)) + str(depth) for depth in range(dice.randrange(5))))
        at = dice.randrange(5)
        chance = dice.random()
        if chance < 0.05:
            index.clear(caches[at])
            seen[at].clear()
        elif chance < 0.1:
            index.close(caches[at])
            caches[at] = index.open()
            seen[at].clear()
        else:
            (index.read if chance < 0.5 else index.sent)(digests, caches[at], 0.0)
            seen[at].update(digests)
        for name, depth in enumerate(index.depths(digests, caches, 0.0)):
            truth = 0
            while truth < len(digests) and digests[truth] in seen[name]:
                truth += 1
            assert depth == truth if roomy else depth <= truth
        assert sum(len(cache.blocks) for cache in caches) == len(index) <= (10_000 if roomy else 12)


def test_an_index_without_room_is_refused() -> None:
    """At construction, with the number."""
    with pytest.raises(ValueError, match="at least 1, not 0"):
        PrefixIndex(0)
