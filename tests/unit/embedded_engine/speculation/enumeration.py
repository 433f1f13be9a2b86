"""Every outcome of a random procedure with its exact probability, so that two procedures can be compared exactly."""

import zlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from embedded_engine.kernels.port import Logits
from embedded_engine.sampling.chooser import Chooser
from embedded_engine.sampling.parameters import Sampling

Text = tuple[int, ...]
Law = Mapping[Text, float]


class Odds:
    """The uniform numbers of one run, each named by a key, all their values played through one run after the other.

    A number that is asked for twice is the same number: procedures that share noise where they must not are enumerated
    as exactly as those that don't.
    """

    def __init__(self) -> None:
        self.weight = 1.0
        self._script: list[tuple[int, int]] = []
        self._step = 0
        self._intervals: dict[Hashable, tuple[float, float]] = {}

    def invert(self, key: Hashable, law: Sequence[float]) -> int:
        """Draw from `law` with the number `key`."""
        ends = np.concatenate([[0.0], np.cumsum(np.asarray(law, np.float64))])
        ends /= ends[-1]
        low, high = self._intervals.get(key, (0.0, 1.0))
        parts = [
            (i, max(low, a), min(high, b)) for i, (a, b) in enumerate(pairwise(ends)) if max(low, a) < min(high, b)
        ]
        if self._step == len(self._script):
            self._script.append((0, len(parts)))
        outcome, start, end = parts[self._script[self._step][0]]
        self._step += 1
        self.weight *= (end - start) / (high - low)
        self._intervals[key] = (start, end)
        return outcome

    def value(self, key: Hashable) -> float:
        """A number that stands for all values that `key` may have by now."""
        return sum(self._intervals[key]) / 2

    def next_run(self) -> bool:
        """Go on to the next combination of values; False when there is none."""
        while self._script and self._script[-1][0] + 1 == self._script[-1][1]:
            self._script.pop()
        if not self._script:
            return False
        at, count = self._script[-1]
        self._script[-1] = (at + 1, count)
        self._step, self.weight, self._intervals = 0, 1.0, {}
        return True


def law_of(procedure: Callable[[Odds], Text]) -> Law:
    """The probability of everything that `procedure` may return."""
    law: dict[Text, float] = defaultdict(float)
    odds = Odds()
    while True:
        law[procedure(odds)] += odds.weight
        if not odds.next_run():
            return law


def distance(one: Law, other: Law) -> float:
    """The total variation."""
    return sum(abs(one.get(text, 0.0) - other.get(text, 0.0)) for text in {*one, *other}) / 2


class TinyModel:
    """A few tokens, the last of which ends the text; the logits are a hash of the history."""

    def __init__(self, vocabulary: int, *, salt: int = 0) -> None:
        self.vocabulary = vocabulary
        self.end = vocabulary - 1
        self._salt = salt

    def logits(self, history: Sequence[int]) -> Logits:
        """After all of `history`."""
        key = zlib.crc32(np.array([self._salt, *history], np.int32).tobytes())
        return np.random.default_rng(key).normal(0, 1.5, self.vocabulary).astype(np.float32)


class EnumeratedDrawn:
    """See `Verified`."""

    def __init__(self, token: int, law: NDArray[np.float64]) -> None:
        self.token = token
        self.law = law

    def probability(self, token: int) -> float:
        """Of `token`."""
        return float(self.law[token])


class EnumeratedChooser:
    """The real chooser's p~, drawn from by `Odds`."""

    def __init__(self, model: TinyModel, sampling: Sampling, prompt: Text, odds: Odds) -> None:
        self._vocabulary = model.vocabulary
        self._chooser = Chooser(sampling, choice=0, prompt=prompt, ends=frozenset({model.end}))
        self._odds = odds
        self.position = 0

    def law(self, logits: Logits) -> NDArray[np.float64]:
        """The whole p~."""
        drawn = self._chooser.draw(logits)
        law = np.array([drawn.probability(token) for token in range(self._vocabulary)])
        return law / law.sum()

    def draw(self, logits: Logits, key: Hashable = None) -> EnumeratedDrawn:
        """See `Chooses.draw`; `key` names the number where it is not the position's own."""
        law = self.law(logits)
        return EnumeratedDrawn(self._odds.invert(("draw", self.position) if key is None else key, law), law)

    def advance(self, token: int) -> None:
        """See `Chooses.advance`."""
        self._chooser.advance(token)
        self.position += 1


Step = Callable[[EnumeratedChooser, TinyModel, Text, Text, Odds], Iterator[int]]
"""What a step emits, given the chooser, the model, the text so far, what was drafted, and the odds."""


def decode(
    step: Step, model: TinyModel, sampling: Sampling, *, draft: Callable[[Text], Text], max_tokens: int
) -> Callable[[Odds], Text]:
    """The procedure that decodes an answer to the prompt (0,) with one kind of step."""

    def procedure(odds: Odds) -> Text:
        prompt: Text = (0,)
        text: Text = prompt
        chooser = EnumeratedChooser(model, sampling, prompt, odds)
        while True:
            for token in step(chooser, model, text, draft(text), odds):
                text = (*text, token)
                if token == model.end or len(text) - 1 == max_tokens:
                    return text

    return procedure
