"""Which lane a sequence belongs into: the one where it makes the steps least longer."""

from collections.abc import Sequence
from typing import NamedTuple

from embedded_engine.choice import Choice
from embedded_engine.lane_costs import LaneCosts
from embedded_engine.memory import CellMemory
from embedded_engine.prefix_cache import Prefix

__all__ = ["LaneChoice", "Move"]

_HEADROOM_TOKENS = 32
"""Cells that an answer should find free beyond its prompt, so that not everybody is admitted and then thrown out."""

_FORESEEN_TOKENS = 64
"""So far ahead is looked: what a sequence will cost soon, and how soon a move must have paid."""

_MOVE_S_PER_TOKEN = 20e-6
"""What saving and restoring costs; 13 microseconds a token of 23 kB were measured."""


class Move(NamedTuple):
    """A choice that should live in another lane."""

    choice: Choice
    lane: int


class _Load(NamedTuple):
    """What a lane has to do in each step: so many rows, over so many cells."""

    rows: int
    cells: int


class LaneChoice:
    """Weighs passes over the weights, of which each lane in use costs one, against attention to the cells of a lane.

    Args:
        memory: Where the cells are.
        costs: What a lane's rows cost.
    """

    def __init__(self, memory: CellMemory, costs: LaneCosts) -> None:
        self._memory = memory
        self._costs = costs

    def best(self, placed: Sequence[Choice], tokens: int, room: int, slots: int, prefix: Prefix | None) -> int | None:
        """The lane for a new sequence; None where it fits nowhere now.

        Args:
            placed: Who has a slot.
            tokens: The sequence's.
            room: How many more it may come to have.
            slots: How many sequences begin with these tokens, and go on apart.
            prefix: What is known of it.
        """
        best, best_s = None, 0.0
        for lane in self._memory.lanes:
            here = self._here(placed, lane)
            new = tokens - self._shared(prefix, lane)
            promised = sum(choice.uncomputed_tokens for choice in here if choice.decodes or choice.reads)
            needed = new + (slots * min(room, _HEADROOM_TOKENS) if here else 1)
            if self._memory.free_sequences(lane) < slots or self._memory.free_tokens(lane) - promised < needed:
                continue
            added_s = self._added_s(self._load(here, lane), slots, new + slots * min(room, _FORESEEN_TOKENS))
            if best is None or added_s < best_s:
                best, best_s = lane, added_s
        return best

    def move(self, placed: Sequence[Choice]) -> Move | None:
        """The move that would make the steps shortest, if it pays soon; None where everybody is well where they are."""
        best, best_s = None, 0.0
        loads = [self._load(self._here(placed, lane), lane) for lane in self._memory.lanes]
        for choice in placed:
            if not choice.decodes:
                continue
            home, cells = self._lane(choice), _foreseen(choice)
            left = _Load(loads[home].rows - 1, loads[home].cells - cells)
            saved_s = self._added_s(left, 1, cells)
            for lane in self._memory.lanes:
                if lane != home and self._fits(choice, lane):
                    gain_s = saved_s - self._added_s(loads[lane], 1, cells)
                    gain_s *= min(choice.room_tokens, _FORESEEN_TOKENS)
                    gain_s -= choice.computed * _MOVE_S_PER_TOKEN
                    if gain_s > best_s:
                        best, best_s = Move(choice, lane), gain_s
        return best

    def _fits(self, choice: Choice, lane: int) -> bool:
        free = self._memory.free_tokens(lane) - len(choice.tokens) - _HEADROOM_TOKENS
        return free >= 0 and self._memory.free_sequences(lane) > 0

    def _added_s(self, load: _Load, rows: int, cells: int) -> float:
        later_s = self._costs.call_s(load.rows + rows, load.cells + cells)
        return later_s - self._costs.call_s(load.rows, load.cells)

    def _load(self, here: Sequence[Choice], lane: int) -> _Load:
        ahead = sum(choice.uncomputed_tokens + min(choice.room_tokens, _FORESEEN_TOKENS) for choice in here)
        return _Load(len(here), self._memory.used_tokens(lane) + ahead)

    def _here(self, placed: Sequence[Choice], lane: int) -> list[Choice]:
        return [choice for choice in placed if self._lane(choice) == lane]

    def _lane(self, choice: Choice) -> int:
        return self._memory.lane_of(-1 if choice.slot is None else choice.slot)

    def _shared(self, prefix: Prefix | None, lane: int) -> int:
        """So many of a prefix's tokens need no new cells in a lane."""
        sequence = prefix.stored.sequence if prefix is not None else None
        if prefix is None or sequence is None or self._memory.lane_of(sequence) != lane:
            return 0
        return prefix.tokens


def _foreseen(choice: Choice) -> int:
    return len(choice.tokens) + min(choice.room_tokens, _FORESEEN_TOKENS)
