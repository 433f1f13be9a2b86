import random

from hypothesis import given
from hypothesis import strategies as st

from embedded_engine.prefix_tree import BLOCK_TOKENS, PrefixTree, Stored

_tokens = st.lists(st.integers(0, 1), max_size=3 * BLOCK_TOKENS).map(tuple)


def _common(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(map(len, (first, second)))
    )


@given(st.lists(_tokens, max_size=8), _tokens, st.integers(0, 10**6))
def test_the_longest_common_beginning_is_found(
    all_tokens: list[tuple[int, ...]], asked: tuple[int, ...], seed: int
) -> None:
    """As plain comparison finds it, down to the token, also after some were removed."""
    dice = random.Random(seed)  # noqa: S311 - which to remove, no secret
    tree, kept = PrefixTree(), []
    for tokens in all_tokens:
        stored = Stored(tokens)
        tree.add(stored)
        kept.append(stored)
        if dice.random() < 0.3:
            tree.remove(gone := dice.choice(kept))
            kept.remove(gone)
    found, common = tree.find(asked)
    best = max((_common(stored.tokens, asked) for stored in kept), default=0)
    assert best == common
    if common:
        assert found in kept
        assert found is not None
        assert found.tokens[:common] == asked[:common]
    assert len(kept) == len(tree)


@given(st.lists(_tokens, max_size=8), _tokens)
def test_what_is_covered_is_a_beginning_and_saved(all_tokens: list[tuple[int, ...]], longest: tuple[int, ...]) -> None:
    """Sequences that are alive stay, whatever comes after them."""
    tree, newest = PrefixTree(), Stored(longest)
    others = [Stored(tokens, sequence=1 if sum(tokens) % 5 == 0 else None) for tokens in all_tokens]
    for stored in (*others, newest):
        tree.add(stored)
    expected = [
        stored for stored in others if stored.sequence is None and stored.tokens == longest[: len(stored.tokens)]
    ]
    covered = tree.covered_by(newest)
    assert len(covered) == len(set(covered))
    assert set(expected) == set(covered)


def test_one_that_is_alive_is_preferred() -> None:
    """Its cells can be shared, and a saved one's have to be copied."""
    tree = PrefixTree()
    tokens = tuple(range(40))
    for sequence in (None, 3, None):
        tree.add(Stored(tokens, sequence))
    found, common = tree.find([*tokens, 99])
    assert found is not None
    assert (3, 40) == (found.sequence, common)


def test_an_emptied_tree_holds_nothing() -> None:
    """No node stays behind."""
    tree = PrefixTree()
    stored = [Stored(tuple(range(start, start + 50))) for start in (0, 0, 5)]
    for one in stored:
        tree.add(one)
    for one in stored:
        tree.remove(one)
    assert {} == tree._root.children
