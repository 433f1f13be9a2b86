"""What each feature adds to the length of an answer, learned one answer at a time, in a table of bounded size."""

from array import array
from collections.abc import Iterable, Sequence
from math import sqrt

from msgspec import Struct

FIRST_SLOTS = 1 << 12
MOST_SLOTS = 1 << 18
"""Of 8 bytes: 2 MB. Twice as many are worth 0.001 of rank correlation."""
_MOST_STORED_SLOTS = 1 << 19
"""Of a state that an earlier version stored."""

_SLOTS_PER_LESSON = 1024
_SANE = 100.0
_FIRST_SQUARE = 1.0
_LEAST_SQUARE = 0.2
"""What an answer counts that was as expected: else one odd answer after many such would move the weights as the first
one does."""


class WeightsState(Struct, frozen=True):
    """Weights and sums of squares as bytes in the machine's order, and from how many answers they are, for storage."""

    weights: bytes
    squares: bytes
    lessons: int


class FeatureWeights:
    """A sum of weights, one for each feature present, fitted by AdaGrad: a feature often seen moves in small steps.

    A feature's number says where its weight is, and nobody looks whose weight it is: features may share one. Each
    weighs little, and the table grows with the answers, so that this costs 0.002 of rank correlation; to look features
    up by name took three times as long as all of it. When it grows, each weight is copied to both places where its
    features may be then.

    References: Duchi, Hazan, Singer, "Adaptive subgradient methods for online learning" (2011); Weinberger et al.,
    "Feature hashing for large scale multitask learning" (2009).
    """

    __slots__ = ("_mask", "_squares", "_weights", "lessons")

    def __init__(self) -> None:
        self.lessons = 0
        self._mask = FIRST_SLOTS - 1
        self._weights = array("f", bytes(4 * FIRST_SLOTS))
        self._squares = array("f", [_FIRST_SQUARE]) * FIRST_SLOTS

    @property
    def slots(self) -> int:
        """Places in memory, of 8 bytes."""
        return self._mask + 1

    def total(self, features: Iterable[int]) -> float:
        """The sum of the weights of ``features``; those unknown weigh next to nothing."""
        weights, mask = self._weights, self._mask
        return sum([weights[feature & mask] for feature in features])

    def learn(self, features: Sequence[int], gradient: float, rate: float, *, answers: int = 1) -> None:
        """Moves the weights of ``features`` by ``gradient``, from -1 to 1, at ``rate``; it stands for ``answers``."""
        self.lessons += 1
        if self.lessons * _SLOTS_PER_LESSON > self.slots and self.slots < MOST_SLOTS:
            self._grow()
        weights, squares, mask = self._weights, self._squares, self._mask
        step, square = rate * gradient / sqrt(max(len(features), 1)), max(gradient * gradient, _LEAST_SQUARE * answers)
        for feature in features:
            slot = feature & mask
            seen = squares[slot] + square
            squares[slot] = seen
            weights[slot] += step / sqrt(seen)

    def state(self) -> WeightsState:
        """For storage."""
        return WeightsState(self._weights.tobytes(), self._squares.tobytes(), self.lessons)

    @classmethod
    def from_state(cls, state: WeightsState) -> "FeatureWeights":
        """What ``state`` gave.

        Raises:
            ValueError: it is none.
        """
        slots = len(state.weights) // 4
        sizes = {len(state.weights), len(state.squares)}
        if sizes != {4 * slots} or not FIRST_SLOTS <= slots <= _MOST_STORED_SLOTS or slots & (slots - 1):
            raise ValueError("a table of weights has a size of its own")
        made = cls()
        made.lessons, made._mask = state.lessons, slots - 1
        made._weights, made._squares = array("f", state.weights), array("f", state.squares)
        sane = all(-_SANE < weight < _SANE for weight in made._weights)
        if not sane or not all(square >= _FIRST_SQUARE for square in made._squares) or state.lessons < 0:
            raise ValueError("a weight is out of bounds")
        while made.slots > MOST_SLOTS:
            made._fold()
        return made

    def _fold(self) -> None:
        """Half the places: features that come to share one weigh their mean."""
        half = self.slots // 2
        for name in ("_weights", "_squares"):
            table: array[float] = getattr(self, name)
            setattr(self, name, array("f", [(low + high) / 2 for low, high in zip(table, table[half:], strict=False)]))
        self._mask = half - 1

    def _grow(self) -> None:
        self._weights, self._squares = self._weights * 2, self._squares * 2
        self._mask = 2 * self._mask + 1
