"""The random number of a token: a function of (seed, choice, position) and of nothing else.

A counter-based generator has no state: a token does not depend on which other requests ran beside it, on how often
anybody drew, or on whether the token was drafted before it was drawn.
"""

import struct
from hashlib import blake2b

__all__ = ["uniform"]

_COUNTER = struct.Struct("<QQQ")


def uniform(seed: int, choice: int, position: int) -> float:
    """A number in [0, 1), a function of its arguments alone: the top 53 bits of their keyed hash."""
    digest = blake2b(_COUNTER.pack(seed & (2**64 - 1), choice, position), digest_size=8, person=b"headrace").digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53
