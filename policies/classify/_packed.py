"""Many numbers of 32 bits side by side in one long integer, where one operation does for all of them.

A loop of Python's takes a thousand instructions for each number that it makes; this takes some ten.
"""

from collections.abc import Sequence
from struct import pack, unpack

from msgspec import Struct

BITS = 32
_BYTES = BITS // 8
_MOST = 256


class Packed(Struct, frozen=True):
    """``count`` numbers, at most 256, in ``bits``: the first one lowest."""

    bits: int
    count: int

    @classmethod
    def of(cls, numbers: Sequence[int]) -> "Packed":
        """Each from 0 to 2**32 - 1."""
        count = len(numbers)
        return cls(int.from_bytes(pack(f"<{count}I", *numbers), "little"), count)

    def joined(self, others: "Packed") -> "Packed":
        """These, and behind them the others."""
        return Packed(self.bits | others.bits << BITS * self.count, self.count + others.count)

    def and_each(self, repeated: int) -> tuple[int, ...]:
        """The numbers, of each the bits that are ``repeated`` for all."""
        count = self.count
        return unpack(f"<{count}I", (self.bits & repeated).to_bytes(_BYTES * count, "little"))


def repeated(number: int, count: int = _MOST) -> int:
    """The same number side by side."""
    return int.from_bytes(number.to_bytes(_BYTES, "little") * count, "little")
