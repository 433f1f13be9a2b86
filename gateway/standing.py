"""The live numbers of one model at one backend, learned from dispatches, first tokens and ends."""

from dataclasses import dataclass, field
from math import inf

_FRESH_WEIGHT = 0.2
"""Of a new sample in the running means: about the last nine samples count."""

_FORGET_HALF_LIFE_S = 30.0
"""An attempt weighs half as much after this time, so that a backend nobody tries becomes worth a try again."""

_GOOD_FAITH_ATTEMPTS = 20.0
"""Successes that are taken for granted: one failure out of nothing says little, and must not send all traffic away."""

_TELLING_PROMPT_TOKENS = 256
"""Below this the round trip, not the prefill, decides when the first token comes."""

_TELLING_OUTPUT_TOKENS = 8


@dataclass(slots=True)
class Standing:
    """Counters of what is under way, and running means of what was seen.

    The speeds start at a middling guess; being wrong four times over costs little, being too hopeful costs more.
    """

    model: str
    in_flight: int = 0
    queued_prefill_tokens: int = 0
    running_output_tokens: int = 0
    prefill_tokens_per_s: float = 1000.0
    seconds_per_token: float = 0.03
    failures_in_a_row: int = 0
    _attempts: float = field(default=0.0, repr=False)
    _failures: float = field(default=0.0, repr=False)
    _judged_s: float = field(default=0.0, repr=False)
    _row_grew_s: float = field(default=-inf, repr=False)

    def dispatched(self, prefill_tokens: int, output_tokens: int) -> None:
        """A request is on its way, with so many tokens to read and to write."""
        self.in_flight += 1
        self.queued_prefill_tokens += prefill_tokens
        self.running_output_tokens += output_tokens

    def prefilled(self, prefill_tokens: int, seconds: float) -> None:
        """Its first token is here."""
        self.queued_prefill_tokens -= prefill_tokens
        if prefill_tokens >= _TELLING_PROMPT_TOKENS and seconds > 0:
            # Averaging the time per token, not the speed: one stall then cannot be outweighed by one cache hit.
            slowness = 1 / self.prefill_tokens_per_s
            slowness += _FRESH_WEIGHT * (seconds / prefill_tokens - slowness)
            self.prefill_tokens_per_s = 1 / slowness

    def gave_up_prefill(self, prefill_tokens: int) -> None:
        """It ended before its first token."""
        self.queued_prefill_tokens -= prefill_tokens

    def landed(self, output_tokens: int) -> None:
        """It is over; ``output_tokens`` is what was expected of it at dispatch."""
        self.in_flight -= 1
        self.running_output_tokens -= output_tokens

    def decoded(self, output_tokens: int, seconds: float) -> None:
        """It wrote so many tokens between its first and its last, in so many seconds."""
        if output_tokens >= _TELLING_OUTPUT_TOKENS and seconds > 0:
            self.seconds_per_token += _FRESH_WEIGHT * (seconds / (output_tokens - 1) - self.seconds_per_token)

    def succeeded(self, now_s: float) -> None:
        """An attempt ended well, which ends the row of failures."""
        self._judged(0.0, now_s)
        self.failures_in_a_row = 0

    def failed(self, *, dispatched_s: float, now_s: float) -> bool:
        """An attempt failed; whether that makes the row longer.

        Attempts that were under way together fail together, of one cause: only one that was sent off after the last
        failure of the row says that the trouble goes on.
        """
        self._judged(1.0, now_s)
        if dispatched_s < self._row_grew_s:
            return False
        self._row_grew_s = now_s
        self.failures_in_a_row += 1
        return True

    def begin_anew(self, now_s: float) -> None:
        """The backend is another one than before: what was sent to the old one and fails yet says nothing of it."""
        self.failures_in_a_row = 0
        self._row_grew_s = now_s

    def failure_rate(self, now_s: float) -> float:
        """The share of recent attempts that failed, 0 to 1, fading with time; a few successes are taken for granted."""
        fading = self._fading(now_s)
        return float(self._failures * fading / (self._attempts * fading + _GOOD_FAITH_ATTEMPTS))

    def _judged(self, failed: float, now_s: float) -> None:
        fading = self._fading(now_s)
        self._judged_s = now_s
        self._attempts = self._attempts * fading + 1.0
        self._failures = self._failures * fading + failed

    def _fading(self, now_s: float) -> float:
        return float(0.5 ** ((now_s - self._judged_s) / _FORGET_HALF_LIFE_S))
