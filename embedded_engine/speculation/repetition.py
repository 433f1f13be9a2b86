"""Drafts from the choice's own text: what followed the last time that the text read like its end does now."""

from collections import deque
from collections.abc import Sequence

from embedded_engine.speculation.drafter import MOST_TOKENS, Proposal
from embedded_engine.speculation.suffix_automaton import SuffixAutomaton

__all__ = ["Repetition"]

_MOST_INDEXED = 16_384
"""Beyond it the older half is forgotten: an automaton takes about 600 bytes a token."""

_AT_ONCE = 1024
"""So many tokens are indexed in one step at most, in 3 ms: a long prompt must not hold up the streams beside it."""


class Repetition:
    """See `Drafter`.

    Args:
        prompt: The text so far.
        most_indexed: Tokens that the index holds at most.
    """

    def __init__(self, prompt: Sequence[int], *, most_indexed: int = _MOST_INDEXED) -> None:
        self._most_indexed = most_indexed
        self._index = SuffixAutomaton()
        self._waiting = deque(prompt[-most_indexed:])

    def take(self, token: int) -> None:
        """See `Drafter.take`."""
        self._waiting.append(token)
        for _ in range(_AT_ONCE):
            if not self._waiting:
                return
            if len(self._index.tokens) >= self._most_indexed:
                self._waiting.extendleft(reversed(self._index.tokens[self._most_indexed // 2 :]))
                self._index = SuffixAutomaton()
            self._index.append(self._waiting.popleft())

    def propose(self) -> Proposal | None:
        """See `Drafter.propose`."""
        match = self._index.match
        if self._waiting or not match.length:
            return None
        tokens = self._index.tokens[match.end : match.end + MOST_TOKENS]
        if len(tokens) < MOST_TOKENS:  # the place is so near that the text repeats itself from there: go on in circles
            tokens = (tokens * MOST_TOKENS)[:MOST_TOKENS]
        shares, state = [], match.state
        for token in tokens:
            share, state = self._index.share(state, token)
            shares.append(share)
        return Proposal(tokens, shares, match.length, match.times)
