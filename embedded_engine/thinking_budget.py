"""Bounds how long a model thinks, inside the distribution from which its tokens are drawn.

At the bound the character under way may be finished, then the tokens that end the thought have probability 1, then the
model answers. Since that is part of the distribution, speculation drafts those tokens and accepts all of them.
"""

import codecs

from embedded_engine.thinking import Place, ThinkingMarks, ThinkingPlace
from embedded_engine.vocabulary import Vocabulary

__all__ = ["ThinkingBudget"]


class ThinkingBudget:
    """One choice's budget; what `Chooser` asks of one is in `sampling/constraints.py`.

    Args:
        marks: The model's marks.
        vocabulary: The model's tokens.
        opened: Whether the prompt ends inside a thought.
        max_tokens: At most so many tokens of thought, and up to three to finish a character.
        min_tokens: With fewer, `wait` comes in place of the end mark.
        wait: The tokens that make a model think on; may be empty where `min_tokens` is 0.
        ends: Whether the thought ends at the bound; otherwise it is cut off there, which is for others to do.
    """

    def __init__(
        self,
        marks: ThinkingMarks,
        vocabulary: Vocabulary,
        *,
        opened: bool,
        max_tokens: int,
        min_tokens: int = 0,
        wait: tuple[int, ...] = (),
        ends: bool = True,
    ) -> None:
        self._marks = marks
        self._vocabulary = vocabulary
        self._place = ThinkingPlace(marks, vocabulary, opened=opened)
        self._max_tokens = max_tokens
        self._min_tokens = min(min_tokens, max_tokens) if wait else 0
        self._wait = wait
        self._ends = ends
        self._forced: tuple[int, ...] = ()
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")
        self._look()

    @property
    def thinking(self) -> bool:
        """Whether the next token belongs to a thought."""
        return self._place.place is Place.THINKING

    @property
    def swapped(self) -> tuple[int, int] | None:
        """The end mark and what comes in its place, where the thought would end too early."""
        closing = self._marks.closing_token
        early = self.thinking and not self._forced and self._place.tokens < self._min_tokens
        return (closing, self._wait[0]) if early and closing is not None else None

    def forced(self) -> tuple[int, ...]:
        """The only tokens that come next."""
        return self._forced

    def advance(self, token: int) -> None:
        """`token` is emitted."""
        waited = bool(self._min_tokens) and not self._forced and token == self._wait[0]
        self._forced = self._forced[1:] if self._forced[:1] == (token,) else ()
        self._place.advance(token)
        self._characters.decode(self._vocabulary.pieces[token])
        if waited and self._place.tokens < self._min_tokens:
            self._forced = self._wait[1:]
        self._look()

    def _look(self) -> None:
        """Where the bound is reached, the end is all that may come."""
        place = self._place
        if place.place is not Place.THINKING or self._forced or not self._ends:
            return
        in_a_character = bool(self._characters.getstate()[0])
        if place.tokens >= self._max_tokens and not in_a_character:
            self._forced = self._marks.end
