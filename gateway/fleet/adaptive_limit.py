"""How many requests a backend takes at once before they wait inside it: learned from first tokens."""

from statistics import median

from gateway.facts import AdaptiveBounds

_START = 8
_ROUND_TRIP_TOKENS = 256
"""What the way there and back takes, as tokens to read: below this the prompt hardly decides."""

_LEAST_SAMPLES, _MOST_SAMPLES = 10, 40
_GROWTH = 1 / 8
_LARGEST_CUT = 0.8
_EPOCH = 30
_LOST_HOPE = 3
_IN_USE = 0.8


class AdaptiveLimit:
    """A concurrency limit that follows the gradient of the time to the first token.

    ::

        pace     = seconds to the first token / (uncached tokens to read before it, its own and those that wait + 256)
        gradient = tolerance x best pace / median pace of the round, at least 0.8 and at most 1
        limit    = limit x gradient                    where the gradient is below 1
                 = limit + max(1, limit / 8)           where it is 1 and the limit was in use; twice the limit at first

    The pace does not depend on how long prompts are, how much of them is cached, and whether they come in bursts: that
    is in the tokens. It rises where requests wait for something else than reading, which is a place. A round is 10 to
    40 first tokens (half the limit) of requests that were sent after the last change, so that none is blamed twice.
    The best pace is the lowest median of the last 30 to 60 rounds; where three rounds at the lower bound are slow, it
    is not the load, the backend has become slower, and what is seen now is the best.

    It is told of three things: a success, which is a sample; a drop (429, or no first token in time), which cuts by a
    fifth at once; and all else, which is ignored by not telling. (Netflix's concurrency-limits has these inputs and the
    gradient; AIMD is Chiu and Jain, 1989.)
    """

    __slots__ = (
        "_before",
        "_best",
        "_changed_s",
        "_hopeless",
        "_limit",
        "_peak",
        "_rounds",
        "_samples",
        "_starting",
        "bounds",
    )

    def __init__(self, bounds: AdaptiveBounds) -> None:
        self.bounds = bounds
        self._limit = float(min(max(bounds.min, _START), bounds.max))
        self._samples: list[float] = []
        self._peak = 0
        self._changed_s = float("-inf")
        self._best: float | None = None
        self._before: float | None = None
        self._rounds = self._hopeless = 0
        self._starting = True

    @property
    def now(self) -> int:
        """How many at once, now."""
        return int(self._limit)

    def succeeded(self, *, seconds: float, tokens: int, in_flight: int, dispatched_s: float, now_s: float) -> None:
        """A first token came ``seconds`` after the dispatch, when ``in_flight`` were there, this one included.

        ``tokens`` had to be read before it.
        """
        if dispatched_s < self._changed_s:
            return
        self._samples.append(seconds / (max(tokens, 0) + _ROUND_TRIP_TOKENS))
        self._peak = max(self._peak, in_flight)
        if len(self._samples) >= min(max(self._limit / 2, _LEAST_SAMPLES), _MOST_SAMPLES):
            self._end_round(now_s)

    def dropped(self, *, dispatched_s: float, now_s: float) -> None:
        """The backend would not take it, or showed nothing in time."""
        if dispatched_s >= self._changed_s:
            self._cut(_LARGEST_CUT, now_s)

    def _end_round(self, now_s: float) -> None:
        pace, peak = median(self._samples), self._peak
        best = self._remember(pace)
        gradient = self.bounds.tolerance * best / pace
        if gradient < 1:
            self._hopeless += self._limit <= self.bounds.min
            if self._hopeless >= _LOST_HOPE:
                self._best, self._before, self._hopeless = pace, None, 0
            self._cut(max(gradient, _LARGEST_CUT), now_s)
            return
        self._hopeless = 0
        grown = 2 * self._limit if self._starting else self._limit + max(1.0, self._limit * _GROWTH)
        self._change(grown if peak >= _IN_USE * self._limit else self._limit, now_s)

    def _remember(self, pace: float) -> float:
        """The best pace of this epoch of rounds and the one before."""
        self._rounds += 1
        if self._rounds % _EPOCH == 0:
            self._before, self._best = self._best, None
        self._best = pace if self._best is None else min(self._best, pace)
        return self._best if self._before is None else min(self._best, self._before)

    def _cut(self, factor: float, now_s: float) -> None:
        self._starting = False
        self._change(self._limit * factor, now_s)

    def _change(self, limit: float, now_s: float) -> None:
        limit = min(max(limit, self.bounds.min), self.bounds.max)
        if limit != self._limit:
            self._changed_s = now_s
        self._limit = limit
        self._samples.clear()
        self._peak = 0
