"""An engine's prefix cache: blocks of prompts in the order in which they were used last."""

from collections import OrderedDict
from collections.abc import Sequence

Block = int | bytes
"""What stands for a block and everything before it: an id of the trace, or a digest."""


class BlockCache:
    """At most ``capacity`` blocks; the one that was used longest ago goes first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._blocks: OrderedDict[Block, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def matched(self, blocks: Sequence[Block]) -> int:
        """How many blocks of a prompt are here, from its start to the first that is not."""
        held = self._blocks
        for count, block in enumerate(blocks):
            if block not in held:
                return count
        return len(blocks)

    def use(self, blocks: Sequence[Block]) -> None:
        """The blocks are read or written now."""
        held = self._blocks
        # The last block first, so that a head is always younger than what hangs on it: no tail is left without a head.
        for block in reversed(blocks):
            if block in held:
                held.move_to_end(block)
            else:
                held[block] = None
        while len(held) > self._capacity:
            held.popitem(last=False)
