"""What came out of a replay, request by request, in memory that does not grow with the trace.

Requests are kept in windows: stretches of the trace, by order of arrival. Two replays of one trace have the same
windows, so that they can be compared window by window; and resampling windows, not requests, keeps a jam together.
"""

from dataclasses import dataclass, field

from msgspec import Struct

from gateway.replay.sketch import Sketch

MOST_WINDOWS = 64
_FIRST_SIZE = 8


class Result(Struct, frozen=True, kw_only=True):
    """One request that is over. ``tpot_s`` is the mean time between tokens, ``None`` for an answer of one token."""

    index: int
    engine: int
    arrived_s: float
    ttft_s: float
    e2e_s: float
    tpot_s: float | None
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    prefill_s: float
    cost_usd: float | None
    good: bool


@dataclass(slots=True)
class Window:
    """The requests of a stretch of the trace, summed up. The lists have one number an engine."""

    prefill_s: list[float]
    served_tokens: list[int]
    ttft_s: Sketch = field(default_factory=Sketch)
    e2e_s: Sketch = field(default_factory=Sketch)
    tpot_s: Sketch = field(default_factory=Sketch)
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    good: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    first_s: float = float("inf")
    last_s: float = float("-inf")

    def add(self, result: Result) -> None:
        """Takes one request."""
        self.ttft_s.add(result.ttft_s)
        self.e2e_s.add(result.e2e_s)
        if result.tpot_s is not None:
            self.tpot_s.add(result.tpot_s)
        self.prompt_tokens += result.prompt_tokens
        self.cached_tokens += result.cached_tokens
        self.output_tokens += result.output_tokens
        self.good += result.good
        if result.cost_usd is None:
            self.unpriced += 1
        else:
            self.cost_usd += result.cost_usd
        self.prefill_s[result.engine] += result.prefill_s
        self.served_tokens[result.engine] += result.prompt_tokens + result.output_tokens
        self.first_s = min(self.first_s, result.arrived_s)
        self.last_s = max(self.last_s, result.arrived_s)

    def merge(self, other: "Window") -> None:
        """Takes all that ``other`` has."""
        self.ttft_s.merge(other.ttft_s)
        self.e2e_s.merge(other.e2e_s)
        self.tpot_s.merge(other.tpot_s)
        self.prompt_tokens += other.prompt_tokens
        self.cached_tokens += other.cached_tokens
        self.output_tokens += other.output_tokens
        self.good += other.good
        self.cost_usd += other.cost_usd
        self.unpriced += other.unpriced
        self.prefill_s = [ours + theirs for ours, theirs in zip(self.prefill_s, other.prefill_s, strict=True)]
        self.served_tokens = [a + b for a, b in zip(self.served_tokens, other.served_tokens, strict=True)]
        self.first_s = min(self.first_s, other.first_s)
        self.last_s = max(self.last_s, other.last_s)


class Tally:
    """Results by window; the first ``warm_up`` requests are left out.

    There are at most ``MOST_WINDOWS``: when the trace goes on, two neighbours become one and each holds twice as many.
    """

    def __init__(self, *, engines: int, warm_up: int = 0) -> None:
        self._engines = engines
        self._warm_up = warm_up
        self._size = _FIRST_SIZE
        self._windows: list[Window] = []

    @property
    def windows(self) -> tuple[Window, ...]:
        """Those that hold a request."""
        return tuple(window for window in self._windows if window.ttft_s.count)

    def add(self, result: Result) -> None:
        """Takes one request, in whatever order they end."""
        place = result.index - self._warm_up
        if place < 0:
            return
        while place // self._size >= MOST_WINDOWS:
            self._halve()
        while place // self._size >= len(self._windows):
            self._windows.append(self._window())
        self._windows[place // self._size].add(result)

    def _halve(self) -> None:
        pairs, self._size = self._windows, self._size * 2
        self._windows = []
        for at in range(0, len(pairs), 2):
            window = pairs[at]
            if at + 1 < len(pairs):
                window.merge(pairs[at + 1])
            self._windows.append(window)

    def _window(self) -> Window:
        return Window(prefill_s=[0.0] * self._engines, served_tokens=[0] * self._engines)
