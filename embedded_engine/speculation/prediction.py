"""Drafts from the caller's `prediction`: the text that it expects, of which most will come true."""

from collections.abc import Sequence

from embedded_engine.speculation.drafter import MOST_TOKENS, Proposal

__all__ = ["Prediction"]

_ANCHOR = 2
"""So many equal tokens in a row find the place again."""

_CERTAIN = (1.0,) * MOST_TOKENS


class Prediction:
    """See `Drafter`. It goes along the prediction as the output does.

    Where the output says something else it first assumes that one token took another's place. Then it looks, at every
    token, for where the output's last two tokens stand, nearest to where the prediction was left: so it is back after
    words that were put in, left out or exchanged.
    """

    def __init__(self, predicted: Sequence[int]) -> None:
        self._predicted = tuple(predicted)
        self._places: dict[tuple[int, ...], list[int]] = {}
        for end in range(_ANCHOR, len(self._predicted) + 1):
            self._places.setdefault(self._predicted[end - _ANCHOR : end], []).append(end)
        self._at = 0
        self._match = 0
        self._misses = 0
        self._left_at = 0
        self._last: tuple[int, ...] = ()

    def take(self, token: int) -> None:
        """See `Drafter.take`."""
        self._last = (*self._last[1 - _ANCHOR :], token)
        at = self._at
        self._at += 1
        if at < len(self._predicted) and self._predicted[at] == token:
            self._match += 1
            self._misses = 0
            return
        if not self._misses:
            self._left_at = at
        self._match = 0
        self._misses += 1
        if places := self._places.get(self._last):
            self._at = min(places, key=self._distance)
            self._match = _ANCHOR
            self._misses = 0

    def propose(self) -> Proposal | None:
        """See `Drafter.propose`."""
        tokens = self._predicted[self._at : self._at + MOST_TOKENS]
        return Proposal(tokens, _CERTAIN, self._match, 1) if tokens and self._misses <= _ANCHOR else None

    def _distance(self, place: int) -> int:
        """Forward is likelier than back: what was written once is rarely written again."""
        return place - self._left_at if place >= self._left_at else 3 * (self._left_at - place)
