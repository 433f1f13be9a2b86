"""What each feature adds to the length of an answer, learned one answer at a time, in a table of bounded size."""

from array import array
from math import sqrt
from operator import itemgetter

from msgspec import Struct

from policies.classify._packed import Packed, repeated

FIRST_SLOTS = 1 << 12
MOST_SLOTS = 1 << 18
"""Of 8 bytes: 2 MB. Twice as many are worth 0.001 of rank correlation."""

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

    __slots__ = ("_masks", "_squares", "_weights", "lessons")

    def __init__(self) -> None:
        self.lessons = 0
        self._masks = repeated(FIRST_SLOTS - 1)
        self._weights = array("f", bytes(4 * FIRST_SLOTS))
        self._squares = array("f", [_FIRST_SQUARE]) * FIRST_SLOTS

    @property
    def slots(self) -> int:
        """Places in memory, of 8 bytes."""
        return len(self._weights)

    def total(self, features: Packed) -> float:
        """The sum of the weights of ``features``, two or more; those unknown weigh next to nothing."""
        found: tuple[float, ...] = itemgetter(*features.and_each(self._masks))(self._weights)
        return sum(found)

    def learn(self, features: Packed, gradient: float, rate: float, *, answers: int = 1) -> None:
        """Moves the weights of ``features`` by ``gradient``, from -1 to 1, at ``rate``; it stands for ``answers``."""
        self.lessons += 1
        if self.lessons * _SLOTS_PER_LESSON > self.slots and self.slots < MOST_SLOTS:
            self._grow()
        weights, squares = self._weights, self._squares
        step, square = rate * gradient / sqrt(max(features.count, 1)), max(gradient * gradient, _LEAST_SQUARE * answers)
        for slot in features.and_each(self._masks):
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
        if sizes != {4 * slots} or not FIRST_SLOTS <= slots <= MOST_SLOTS or slots & (slots - 1):
            raise ValueError("a table of weights has a size of its own")
        made = cls()
        made.lessons, made._masks = state.lessons, repeated(slots - 1)
        made._weights, made._squares = array("f", state.weights), array("f", state.squares)
        sane = all(-_SANE < weight < _SANE for weight in made._weights)
        if not sane or not all(square >= _FIRST_SQUARE for square in made._squares) or state.lessons < 0:
            raise ValueError("a weight is out of bounds")
        return made

    def _grow(self) -> None:
        self._weights, self._squares = self._weights * 2, self._squares * 2
        self._masks = repeated(self.slots - 1)
