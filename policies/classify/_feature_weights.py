"""What each feature adds to the length of an answer, learned one answer at a time; bounded, and the oldest go first."""

from array import array
from collections.abc import Iterable, Sequence
from math import sqrt

from msgspec import Struct

FIRST_SLOTS = 1 << 12
MOST_SLOTS = 1 << 19
"""In each of two generations, of 12 bytes: at most 12 MB in all, 400,000 features or more."""

_GROWTH = 4
_FULL = 0.75
_PROBES = 8
_SANE = 100.0
_LEAST_SQUARE = 0.2
"""What an answer counts that was as expected: else one odd answer after many such would move the weights as the first
one does."""


class WeightsState(Struct, frozen=True):
    """Both generations as bytes in the machine's order, for storage: keys, weights and sums of squares of each."""

    young: tuple[bytes, bytes, bytes]
    old: tuple[bytes, bytes, bytes] | None


class _Table:
    """An open-addressing map from a feature to its weight and the sum of its squared gradients."""

    __slots__ = ("keys", "mask", "squares", "used", "weights")

    def __init__(self, slots: int) -> None:
        self.mask = slots - 1
        self.keys = array("I", bytes(4 * slots))
        self.weights = array("f", bytes(4 * slots))
        self.squares = array("f", bytes(4 * slots))
        self.used = 0

    @property
    def slots(self) -> int:
        return self.mask + 1

    def find(self, feature: int) -> int:
        """Its slot, the free slot where it may go as ``-2 - slot``, or -1 where neither is near."""
        slot = feature & self.mask
        for _ in range(_PROBES):
            key = self.keys[slot]
            if key == feature:
                return slot
            if not key:
                return -2 - slot
            slot = (slot + 1) & self.mask
        return -1

    def put(self, feature: int, weight: float, square: float) -> int:
        """Its slot, made for it where there is room; -1 where there is none."""
        slot = self.find(feature)
        if slot < -1:
            slot = -2 - slot
            self.keys[slot], self.weights[slot], self.squares[slot] = feature, weight, square
            self.used += 1
        return slot

    def state(self) -> tuple[bytes, bytes, bytes]:
        """Keys, weights and squares as bytes."""
        return self.keys.tobytes(), self.weights.tobytes(), self.squares.tobytes()


class FeatureWeights:
    """A sum of weights, one for each feature present, fitted by AdaGrad: a feature often seen moves in small steps.

    Two generations of features are kept. The younger one is grown, or begun anew, when it is full; a feature of the
    older one that comes again moves over, and the rest is forgotten with it. So what is seen now and then stays.

    Reference: Duchi, Hazan, Singer, "Adaptive subgradient methods for online learning" (2011).
    """

    __slots__ = ("_old", "_young")

    def __init__(self) -> None:
        self._young = _Table(FIRST_SLOTS)
        self._old: _Table | None = None

    @property
    def slots(self) -> int:
        """Places in memory, of 12 bytes."""
        return self._young.slots + (self._old.slots if self._old else 0)

    def total(self, features: Iterable[int]) -> float:
        """The sum of the weights of ``features``; those unknown weigh nothing."""
        table, old, found = self._young, self._old, 0.0
        keys, weights, mask = table.keys, table.weights, table.mask
        for feature in features:
            slot = feature & mask
            if keys[slot] == feature or (keys[slot] and (slot := table.find(feature)) >= 0):
                found += weights[slot]
            elif old is not None and (slot := old.find(feature)) >= 0:
                found += old.weights[slot]
        return found

    def learn(self, features: Sequence[int], gradient: float, rate: float, *, answers: int = 1) -> None:
        """Moves the weights of ``features`` by ``gradient``, from -1 to 1, at ``rate``; it stands for ``answers``."""
        if self._young.used > _FULL * self._young.slots:
            self._next_generation()
        table = self._young
        keys, weights, squares, mask = table.keys, table.weights, table.squares, table.mask
        step, square = rate * gradient / sqrt(max(len(features), 1)), max(gradient * gradient, _LEAST_SQUARE * answers)
        for feature in features:
            slot = feature & mask
            if keys[slot] != feature and (slot := self._place(feature)) < 0:
                continue
            seen = squares[slot] + square
            squares[slot] = seen
            weights[slot] += step / sqrt(seen)

    def state(self) -> WeightsState:
        """For storage."""
        return WeightsState(young=self._young.state(), old=self._old.state() if self._old else None)

    @classmethod
    def from_state(cls, state: WeightsState) -> "FeatureWeights":
        """What ``state`` gave.

        Raises:
            ValueError: it is none.
        """
        made = cls()
        made._young, made._old = _restored(state.young), _restored(state.old) if state.old else None
        return made

    def _place(self, feature: int) -> int:
        """The slot of a feature that is not in its first one: moved from the older generation, or new."""
        weight, square = 0.0, 1.0
        if self._old is not None and (slot := self._old.find(feature)) >= 0:
            weight, square = self._old.weights[slot], self._old.squares[slot]
        return self._young.put(feature, weight, square)

    def _next_generation(self) -> None:
        self._old = self._young
        self._young = _Table(min(self._young.slots * _GROWTH, MOST_SLOTS))


def _restored(state: tuple[bytes, bytes, bytes]) -> _Table:
    keys, weights, squares = state
    slots = len(keys) // 4
    sizes = {len(keys), len(weights), len(squares)}
    if sizes != {4 * slots} or not FIRST_SLOTS <= slots <= MOST_SLOTS or slots & (slots - 1):
        raise ValueError("a generation of features has a size of its own")
    table = _Table(slots)
    for ours, theirs in ((table.keys, keys), (table.weights, weights), (table.squares, squares)):
        ours[:] = array(ours.typecode, theirs)
    if not all(-_SANE < weight < _SANE for weight in table.weights) or not all(s >= 0 for s in table.squares):
        raise ValueError("a weight is out of bounds")
    table.used = slots - table.keys.count(0)
    return table
