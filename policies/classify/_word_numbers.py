"""The numbers of a prompt's words, of its pairs of words, and of how it begins and ends."""

from collections.abc import Sequence
from zlib import crc32

from policies.classify._packed import BITS, Packed, repeated

_ENDS_WORDS = 8
_OPENING, _ENDING = repeated(0x5BD1E995, _ENDS_WORDS), repeated(0x9E3779B1, _ENDS_WORDS)
"""Bits that are turned over in a word's number where it stands at one of the ends."""

_ALL_BITS = [(1 << BITS * count) - 1 for count in range(_ENDS_WORDS + 1)]
"""Of so many numbers."""

_START, _STOP = 0x2545F491, 0x3C6EF372
"""Stand before the first word and behind the last one."""

_LEFT_OUT_BITS = 7
"""Of the second word of a pair the bits behind these count, so that the order matters. Above the 24th bit of the pair's
number are some of the word behind it; no table has so many places."""


def word_numbers(words: Sequence[bytes]) -> Packed:
    """Of each word, of each pair, of the first and the last eight by their place, and of the first by twos over one."""
    each = Packed.of(list(map(crc32, words)))
    bits, count = each.bits, each.count
    end = BITS * count
    first = _START | bits << BITS
    second = bits | _STOP << end
    pairs = first ^ second >> _LEFT_OUT_BITS
    at_ends, over_one = min(count, _ENDS_WORDS), min(max(count - 2, 0), _ENDS_WORDS)
    opening = (bits ^ _OPENING) & _ALL_BITS[at_ends]
    ending = (bits >> end - BITS * at_ends ^ _ENDING) & _ALL_BITS[at_ends]
    twos = (opening ^ bits >> 2 * BITS + _LEFT_OUT_BITS) & _ALL_BITS[over_one]
    at_places = opening | ending << BITS * at_ends | twos << 2 * BITS * at_ends
    return Packed(bits | pairs << end | at_places << 2 * end + BITS, 2 * count + 1 + 2 * at_ends + over_one)
