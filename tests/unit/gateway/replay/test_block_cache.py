from gateway.replay.block_cache import BlockCache


def test_a_prompt_matches_up_to_the_first_block_that_is_not_there() -> None:
    """A block behind a gap is worth nothing: what stands before it must be read anew."""
    cache = BlockCache(10)
    cache.use((1, 2, 4))
    assert [0, 2, 2, 3] == [cache.matched(blocks) for blocks in ((5, 1), (1, 2), (1, 2, 3, 4), (1, 2, 4))]


def test_what_was_used_longest_ago_goes_first_and_the_tail_before_the_head() -> None:
    """Of the prompt 1 2 3, the 3 hangs on the others and goes before them."""
    cache = BlockCache(4)
    cache.use((1, 2, 3))
    cache.use((8, 9))
    assert (2, 4) == (cache.matched((1, 2, 3)), len(cache))
    cache.use((1,))
    cache.use((5, 6))
    assert (1, 2) == (cache.matched((1, 2)), cache.matched((5, 6)))
