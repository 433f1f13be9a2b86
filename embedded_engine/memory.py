"""Who holds which cells: the kernels' sequences and lanes, counted.

The libraries have no way to ask how many cells a lane has left, and sequences share some of theirs. So every cell is a
number here, too, and knows how many sequences hold it.
"""

from embedded_engine.kernels.port import Kernels, SavedCells

__all__ = ["CellMemory"]


class CellMemory:
    """The sequences of all lanes; each is claimed, grows, and is released.

    Args:
        kernels: They hold the cells themselves.
        lanes: How many.
        lane_tokens: Cells of each.
        lane_sequences: Sequences of each.
    """

    def __init__(self, kernels: Kernels, *, lanes: int, lane_tokens: int, lane_sequences: int) -> None:
        self._kernels = kernels
        self.lanes = range(lanes)
        self.lane_tokens = lane_tokens
        self._lane_sequences = lane_sequences
        self._free_cells = [list(range(lane_tokens)) for _ in self.lanes]
        self._holders = [[0] * lane_tokens for _ in self.lanes]
        self._free_sequences = [
            list(range((lane + 1) * lane_sequences - 1, lane * lane_sequences - 1, -1)) for lane in self.lanes
        ]
        self._cells: dict[int, list[int]] = {}

    def lane_of(self, sequence: int) -> int:
        """Where a sequence lives."""
        return sequence // self._lane_sequences

    def free_tokens(self, lane: int) -> int:
        """Cells that nobody holds."""
        return len(self._free_cells[lane])

    def used_tokens(self, lane: int) -> int:
        """Cells that somebody holds: every row of the lane pays for them."""
        return self.lane_tokens - len(self._free_cells[lane])

    def free_sequences(self, lane: int) -> int:
        """How many may still be claimed."""
        return len(self._free_sequences[lane])

    def length(self, sequence: int) -> int:
        """Its tokens."""
        return len(self._cells[sequence])

    def claim(self, lane: int) -> int:
        """An empty sequence, of which there must be one."""
        sequence = self._free_sequences[lane].pop()
        self._cells[sequence] = []
        return sequence

    def release(self, sequence: int) -> None:
        """Nobody needs this one any more, whatever a failed call may have left in it."""
        self.cut(sequence, 0)
        self._kernels.remove(sequence)
        del self._cells[sequence]
        self._free_sequences[self.lane_of(sequence)].append(sequence)

    def grew(self, sequence: int, tokens: int) -> None:
        """The kernels have decoded so many more tokens of it."""
        lane = self.lane_of(sequence)
        free, holders = self._free_cells[lane], self._holders[lane]
        for _ in range(tokens):
            cell = free.pop()
            holders[cell] = 1
            self._cells[sequence].append(cell)

    def cut(self, sequence: int, length: int) -> None:
        """Forget all but its first `length` tokens."""
        cells = self._cells[sequence]
        if length >= len(cells):
            return
        lane = self.lane_of(sequence)
        holders = self._holders[lane]
        for cell in cells[length:]:
            holders[cell] -= 1
            if not holders[cell]:
                self._free_cells[lane].append(cell)
        del cells[length:]
        self._kernels.remove(sequence, length)

    def close_holes(self) -> None:
        """Move the cells together that sequences have left apart, before the time of a decode is taken.

        Half a millisecond where a draft was cut out, some tens where a long answer has left that grew between others.
        """
        for lane in self.lanes:
            self._kernels.compact(lane)

    def share(self, source: int, target: int, tokens: int) -> None:
        """Let the empty `target`, of the same lane, hold the first cells of `source`, too."""
        holders = self._holders[self.lane_of(source)]
        shared = self._cells[source][:tokens]
        for cell in shared:
            holders[cell] += 1
        self._cells[target] = shared
        self._kernels.share(source, target, tokens)

    def save(self, sequence: int) -> SavedCells:
        """Its cells, for `restore`."""
        return self._kernels.save(sequence)

    def restore(self, sequence: int, saved: SavedCells, *, length: int, keep: int) -> bool:
        """Fill an empty sequence with the first `keep` of the `length` tokens that were saved.

        Returns:
            False, and it is still empty, where there is no room for all of them.
        """
        if self.free_tokens(self.lane_of(sequence)) < length or not self._kernels.restore(sequence, saved):
            return False
        self.grew(sequence, length)
        self.cut(sequence, keep)
        return True

    def move(self, sequence: int, lane: int) -> int | None:
        """Let a sequence live in another lane; its number there, or None where that has no room for it."""
        target, length = self.claim(lane), self.length(sequence)
        moved = self.restore(target, self.save(sequence), length=length, keep=length)
        self.release(sequence if moved else target)
        return target if moved else None
