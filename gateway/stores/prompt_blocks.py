"""Which prompts began alike, as the ledger keeps it: a short number for every 2 KB of each.

They are cut out of the digests that the gateway makes anyway, and tell nothing but equality: a tenant's and a model's
name are hashed in, and what was said cannot be found out of 48 bits of it.
"""

from collections.abc import Sequence

BLOCK_BYTES = 2048
"""About 512 tokens."""

_ID_BYTES = 6


def has_blocks(ends_bytes: Sequence[int]) -> bool:
    """Whether the prompt whose chunks end there is long enough for one."""
    return bool(ends_bytes) and ends_bytes[-1] >= BLOCK_BYTES


def block_ids(digests: Sequence[bytes], ends_bytes: Sequence[int]) -> bytes | None:
    """A number for each full block of the prompt, one after the other; ``None`` for a prompt shorter than that.

    Chunks end at turns too. A block is known by the last chunk that ends in it, and none is longer than a block, so
    that each has one.
    """
    if not has_blocks(ends_bytes):
        return None
    found: list[bytes] = []
    at = 0
    for block_ends in range(BLOCK_BYTES, ends_bytes[-1] + 1, BLOCK_BYTES):
        while at < len(ends_bytes) and ends_bytes[at] <= block_ends:
            at += 1
        if at:
            found.append(digests[at - 1][:_ID_BYTES])
    return b"".join(found) or None


def read_ids(kept: bytes | None) -> list[int]:
    """The numbers, for a trace."""
    if not kept:
        return []
    return [int.from_bytes(kept[at : at + _ID_BYTES], "big") for at in range(0, len(kept), _ID_BYTES)]
