"""Drafts from a table of which token follows which two, or which one: the part of a draft head that a CPU can afford.

The table of a scope is learned from what the model emits there, and is never read by another scope, for the reason in
`past_outputs.py`. A prior that would be the same for all, counted over 13,500 tokens of the model's texts on forty
other subjects, changed no speed by more than a hundredth: there is none.
"""

from collections import OrderedDict

__all__ = ["NO_SUCCESSORS", "MarkovTable", "MarkovTables", "Successors"]

_KEPT = 4
"""Successors that a context remembers."""

_MOST_COUNTED = 64
"""Where a context was met so often its counts are halved, so that it follows the text."""

_ONE = 2**24
"""A context of one token has its number, one of two tokens a number from here on."""

_TRUST_IN_PAIRS = 1.0
"""A context of two tokens counts as if it had been met so often more, with what its last token alone says."""

_Counts = dict[int, int]
_NONE: _Counts = {}


class Successors:
    """What may follow two tokens.

    Attributes:
        token: The likeliest; -1 where nothing is known.
        likely: Its probability.
        times: How often it followed the two.
        seen: How often the two were met.
    """

    __slots__ = ("_one", "_one_seen", "_two", "likely", "seen", "times", "token")

    def __init__(self, two: _Counts, one: _Counts) -> None:
        self._two, self._one = two, one
        self.seen, self._one_seen = sum(two.values()), sum(one.values()) + 1
        self.token, self.likely = -1, 0.0
        for candidates in (two, one):
            for token in candidates:
                if (probability := self.probability(token)) > self.likely:
                    self.token, self.likely = token, probability
        self.times = two.get(self.token, 0)

    def probability(self, token: int) -> float:
        """The smoothed share of the times that `token` followed."""
        from_one = self._one.get(token, 0) / self._one_seen
        return (self._two.get(token, 0) + _TRUST_IN_PAIRS * from_one) / (self.seen + _TRUST_IN_PAIRS)


NO_SUCCESSORS = Successors({}, {})


class MarkovTable:
    """One scope's counts.

    Args:
        most_contexts: So many are kept at most; those longest unused go first.
    """

    def __init__(self, *, most_contexts: int = 16_384) -> None:
        self._most_contexts = most_contexts
        self._counts: OrderedDict[int, _Counts] = OrderedDict()

    def __len__(self) -> int:
        """Contexts known from this scope."""
        return len(self._counts)

    def learn(self, before: int, last: int, token: int) -> None:
        """`token` followed `before` and `last`."""
        for context in ((before + 1) * _ONE + last, last):
            counts = self._counts.get(context)
            if counts is None:
                self._counts[context] = {token: 1}
                if len(self._counts) > self._most_contexts:
                    self._counts.popitem(last=False)
            else:
                self._counts.move_to_end(context)
                _count(counts, token)

    def after(self, before: int, last: int) -> Successors:
        """What may follow these two."""
        counts = self._counts
        return Successors(counts.get((before + 1) * _ONE + last, _NONE), counts.get(last, _NONE))


class MarkovTables:
    """The tables of all scopes; those of scopes longest unused are forgotten.

    Args:
        most_scopes: So many tables are kept at most.
    """

    def __init__(self, *, most_scopes: int = 32) -> None:
        self._most_scopes = most_scopes
        self._tables: OrderedDict[str, MarkovTable] = OrderedDict()

    def of(self, scope: str) -> MarkovTable:
        """The scope's table."""
        table = self._tables.setdefault(scope, MarkovTable())
        self._tables.move_to_end(scope)
        if len(self._tables) > self._most_scopes:
            self._tables.popitem(last=False)
        return table


def _count(counts: _Counts, token: int) -> None:
    if token in counts:
        counts[token] += 1
        if counts[token] > _MOST_COUNTED:
            for known in counts:
                counts[known] = (counts[known] + 1) // 2
    elif len(counts) < _KEPT:
        counts[token] = 1
    else:  # Misra and Gries, "Finding repeated elements", 1982: a newcomer takes one from everybody
        rarest = min(counts, key=counts.__getitem__)
        if counts[rarest] == 1:
            del counts[rarest]
            counts[token] = 1
        else:
            counts[rarest] -= 1
