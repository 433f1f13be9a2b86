"""Keeps log-probabilities back until the text of their tokens is shown.

A token may hold half a character, or text that could become a stop string. Its entry goes out with the first of its
characters; so entries never run ahead of the text, and end where a stop string begins.
"""

from collections import deque

from embedded_engine.likelihoods import TokenLogprob

__all__ = ["PendingLogprobs"]


class PendingLogprobs:
    """One choice's."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, TokenLogprob]] = deque()

    def add(self, entry: TokenLogprob, *, at: int) -> None:
        """A token came, after `at` characters were complete: its own begin, or end, the next one."""
        self._waiting.append((at, entry))

    def take(self, shown: int) -> tuple[TokenLogprob, ...]:
        """The entries of tokens that have a part in the first `shown` characters and were not taken before."""
        taken = []
        while self._waiting and self._waiting[0][0] < shown:
            taken.append(self._waiting.popleft()[1])
        return tuple(taken)

    def take_all(self) -> tuple[TokenLogprob, ...]:
        """All that wait: no more text comes, and no stop string cut it."""
        taken = tuple(entry for _, entry in self._waiting)
        self._waiting.clear()
        return taken
