"""An index of every substring of a growing text, in time and memory linear in its length.

A. Blumer et al., "The smallest automaton recognizing the subwords of a text", 1985. Appending a token takes constant
time on average, and tells at once the longest end of the text that has occurred before, where it last ended, and how
often it has.
"""

from typing import NamedTuple

__all__ = ["Match", "SuffixAutomaton"]

_RECENT = 24
"""How many of the shorter ends of the text learn, when a token is appended, that they have occurred again.

A bound, since a text of one token repeated has as many as it is long.
"""


class Match(NamedTuple):
    """The longest end of the text that occurred before.

    Attributes:
        length: Its tokens; 0: the last token is new.
        end: The index of the token that followed it where it last occurred.
        times: How often it has occurred, this time excluded; a lower bound.
        state: The automaton's state for it.
    """

    length: int
    end: int
    times: int
    state: int


class SuffixAutomaton:
    """The index of `tokens`, which only `append` changes."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.match = Match(0, 0, 0, 0)
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._end = [0]
        self._count = [0]
        self._whole = 0

    def append(self, token: int) -> None:
        """Make the text one token longer."""
        self.tokens.append(token)
        whole = self._state(len(self.tokens), 0)
        at = self._whole
        following, link = self._next, self._link
        while at >= 0 and token not in following[at]:
            following[at][token] = whole
            at = link[at]
        link[whole] = 0 if at < 0 else self._split(at, token)
        self._whole = whole
        self._note(link[whole])

    def share(self, state: int, token: int) -> tuple[float, int]:
        """Of the times that `state`'s text occurred, the share that `token` followed; and the state after it.

        The state is 0, which stands for no text, where it never did.
        """
        after = self._next[state].get(token, 0)
        return (min(1.0, self._count[after] / max(1, self._count[state])), after) if after else (0.0, 0)

    def _state(self, length: int, link: int) -> int:
        self._next.append({})
        self._link.append(link)
        self._length.append(length)
        self._end.append(length)
        self._count.append(1)
        return len(self._length) - 1

    def _split(self, at: int, token: int) -> int:
        """The state of the longest suffix that `token` ends; made of its neighbour where it has none yet."""
        following, link, length = self._next, self._link, self._length
        found = following[at][token]
        if length[found] == length[at] + 1:
            return found
        copy = self._state(length[at] + 1, link[found])
        following[copy] = dict(following[found])
        self._end[copy], self._count[copy] = self._end[found], self._count[found]
        link[found] = copy
        while at >= 0 and following[at].get(token) == found:
            following[at][token] = copy
            at = link[at]
        return copy

    def _note(self, state: int) -> None:
        self.match = Match(self._length[state], self._end[state], self._count[state], state)
        end, left = len(self.tokens), _RECENT
        while state > 0 and left:
            self._end[state] = end
            self._count[state] += 1
            state = self._link[state]
            left -= 1
