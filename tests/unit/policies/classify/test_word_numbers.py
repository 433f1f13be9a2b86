"""Words as numbers: those of pairs tell the order, and those at the ends the place."""

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.classify._packed import Packed, repeated
from policies.classify._word_numbers import word_numbers

_ALL = repeated(2**32 - 1)
_PLACES = repeated(2**25 - 1)

words = st.lists(st.binary(min_size=1, max_size=9), max_size=40)


@given(words=words)
def test_each_word_stands_first_then_each_pair_then_those_at_the_ends(words: list[bytes]) -> None:
    """So many numbers, and those of words are their checksums."""
    found = word_numbers(words)
    assert 2 * len(words) + 1 + 2 * min(len(words), 8) + max(min(len(words) - 2, 8), 0) == found.count
    assert tuple(map(crc32, words)) == found.and_each(_ALL)[: len(words)]
    assert 0 == found.bits >> 32 * found.count


@given(before=words, after=words)
def test_a_pair_has_the_same_number_wherever_it_stands(before: list[bytes], after: list[bytes]) -> None:
    """As far as a table has places."""
    pair = [b"lorem", b"ipsum"]
    alone, among = word_numbers(pair).and_each(_PLACES), word_numbers([*before[:16], *pair, *after[:16]])
    count = len(before[:16]) + 2 + len(after[:16])
    assert alone[3] == among.and_each(_PLACES)[count + len(before[:16]) + 1]


def test_the_order_of_words_makes_other_pairs() -> None:
    """And so does what stands at an end."""
    found = word_numbers([b"a", b"b", b"c"]).and_each(_PLACES)
    assert 4 == len(set(found[3:7]))
    assert 3 == len(set(found[7:10]))
    assert 7 == len(set(found[7:]))


@given(numbers=st.lists(st.integers(0, 2**32 - 1), max_size=128), mask=st.integers(0, 2**32 - 1))
def test_numbers_side_by_side_are_those_that_were_put_there(numbers: list[int], mask: int) -> None:
    """Of each the bits that are asked for, and of two lots those of the first one first."""
    packed = Packed.of(numbers)
    assert tuple(number & mask for number in numbers) == packed.and_each(repeated(mask))
    assert (*numbers, *reversed(numbers)) == packed.joined(Packed.of(numbers[::-1])).and_each(_ALL)


@pytest.mark.parametrize("number", [0, 1, 2**32 - 1])
def test_a_number_is_repeated_as_often_as_asked(number: int) -> None:
    """Side by side."""
    assert (number,) * 3 == Packed(repeated(number, 3), 3).and_each(_ALL)
