"""Drafts from what this model has answered before, to the same tenant.

The store is kept apart by scope: nothing of a scope is ever proposed to another, or its drafts' speed would tell one
tenant what another has asked. All scopes together hold a bounded number of tokens; the outputs that were least recently
of use go first.
"""

from collections import OrderedDict
from collections.abc import Sequence

from embedded_engine.speculation.drafter import MOST_TOKENS, Proposal

__all__ = ["PastOutputs", "Recall"]

_ANCHOR = 3
"""So many equal tokens in a row recall an output."""

_MOST_COMPARED = 24
"""A match is not measured beyond this."""

_CERTAIN = (1.0,) * MOST_TOKENS

_Output = tuple[int, ...]
_Place = tuple[int, int]
"""The number of an output, and an index into it."""


class PastOutputs:
    """The outputs of all scopes.

    Args:
        most_tokens: So many tokens are kept at most, of all scopes together.
    """

    def __init__(self, *, most_tokens: int = 131_072) -> None:
        self.tokens = 0
        self._most_tokens = most_tokens
        self._outputs: OrderedDict[int, tuple[str, _Output]] = OrderedDict()
        self._places: dict[str, dict[_Output, _Place]] = {}
        self._stored = 0

    def store(self, scope: str, output: Sequence[int]) -> None:
        """Keep an output; the end of one that is longer than the store."""
        kept = tuple(output[-self._most_tokens :])
        if len(kept) <= _ANCHOR:
            return
        number = self._stored
        self._stored += 1
        self._outputs[number] = (scope, kept)
        self.tokens += len(kept)
        places = self._places.setdefault(scope, {})
        for end in range(_ANCHOR, len(kept)):
            places[kept[end - _ANCHOR : end]] = (number, end)
        while self.tokens > self._most_tokens:
            self._forget_oldest()

    def find(self, scope: str, last: _Output) -> _Place | None:
        """Where the scope's outputs went on after these tokens, the last time that they stood there."""
        place = self._places.get(scope, {}).get(last)
        if place is not None:
            self._outputs.move_to_end(place[0])
        return place

    def output(self, number: int) -> _Output:
        """An output; empty when it was forgotten."""
        return self._outputs[number][1] if number in self._outputs else ()

    def _forget_oldest(self) -> None:
        number, (scope, output) = self._outputs.popitem(last=False)
        self.tokens -= len(output)
        places = self._places[scope]
        for end in range(_ANCHOR, len(output)):
            key = output[end - _ANCHOR : end]
            if places.get(key, (-1, 0))[0] == number:
                del places[key]
        if not places:
            del self._places[scope]


class Recall:
    """See `Drafter`. Follows one choice's text through the outputs of its scope."""

    def __init__(self, outputs: PastOutputs, scope: str, prompt: Sequence[int]) -> None:
        self._outputs = outputs
        self._scope = scope
        self._recent = list(prompt[-_MOST_COMPARED:])
        self._place: _Place | None = None
        self._match = 0

    def take(self, token: int) -> None:
        """See `Drafter.take`."""
        self._recent.append(token)
        if self._place is not None:
            number, at = self._place
            output = self._outputs.output(number)
            if at < len(output) and output[at] == token:
                self._place = (number, at + 1)
                self._match += 1
                return
        if len(self._recent) > 2 * _MOST_COMPARED:
            del self._recent[:-_MOST_COMPARED]
        self._place = self._outputs.find(self._scope, tuple(self._recent[-_ANCHOR:]))
        self._match = self._agreement() if self._place else 0

    def propose(self) -> Proposal | None:
        """See `Drafter.propose`."""
        if self._place is None:
            return None
        number, at = self._place
        tokens = self._outputs.output(number)[at : at + MOST_TOKENS]
        return Proposal(tokens, _CERTAIN, self._match, 1) if tokens else None

    def _agreement(self) -> int:
        """How many tokens before the place are those of the text."""
        number, at = self._place or (0, 0)
        output = self._outputs.output(number)
        most = min(at, len(self._recent), _MOST_COMPARED)
        return next((n for n in range(most) if output[at - 1 - n] != self._recent[-1 - n]), most)
