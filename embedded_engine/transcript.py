"""What the tokens of one answer say: to the reader, in thought, and to tools.

Tokens become bytes, bytes whole characters; of these the thought is parted off, then the calls, and what is left ends
before the first stop string. Stop strings are looked for in the answer alone, not in thoughts and not in arguments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

from embedded_engine.characters import Characters
from embedded_engine.stops import StopStrings
from embedded_engine.thinking import Place, ThinkingPlace
from embedded_engine.tools.reader import CallReader
from embedded_engine.turns import CallPiece
from embedded_engine.vocabulary import Vocabulary

__all__ = ["Said", "Transcript"]

_NO_MARKS: Mapping[int, bytes] = {}


@dataclass(slots=True)
class Said:
    """What may be shown now; false when there is nothing."""

    text: str = ""
    reasoning: str = ""
    calls: list[CallPiece] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.text or self.reasoning or self.calls)

    def __iadd__(self, more: "Said") -> Self:
        self.text += more.text
        self.reasoning += more.reasoning
        self.calls += more.calls
        return self


class Transcript:
    """One choice's transcript.

    Args:
        vocabulary: The model's tokens.
        stops: The choice's filter.
        thinking: Where its thought ends, for a model that thinks.
        stop_thinking_after: So many tokens of thought are the end of the choice; None: no number is.
        calls: What parts its calls off, where it may call something.
        marks: The bytes of control tokens that mark calls; others add nothing.

    Attributes:
        ended: Why the choice is over, for reasons of its text: "stop" for a stop string, "length" for its thought.
        characters_read: Characters that the tokens have completed.
        characters_shown: How many of them, from the first on, are dealt with: shown, or markup. Where a stop string
            ended the text it is the place before it.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        stops: StopStrings,
        *,
        thinking: ThinkingPlace | None = None,
        stop_thinking_after: int | None = None,
        calls: CallReader | None = None,
        marks: Mapping[int, bytes] = _NO_MARKS,
    ) -> None:
        self.ended: Literal["stop", "length"] | None = None
        self.characters_read = 0
        self._vocabulary = vocabulary
        self._stops = stops
        self._thinking = thinking
        self._stop_thinking_after = stop_thinking_after
        self._calls = calls
        self._marks = marks
        self._characters = Characters()
        self._thought_characters = Characters()
        self._white = ""  # at the end of the thought so far
        self._thought_began = False
        self._answer_began = thinking is None

    @property
    def calls(self) -> int:
        """How many tools were called."""
        return self._calls.calls if self._calls is not None else 0

    @property
    def reasoning_tokens(self) -> int:
        """How many tokens were thought."""
        return self._thinking.tokens if self._thinking is not None else 0

    @property
    def characters_shown(self) -> int:
        """See the class."""
        held = self._stops.unshown_characters + len(self._white)
        return self.characters_read - held - (self._calls.held_characters if self._calls is not None else 0)

    def feed(self, token: int) -> Said:
        """`token` came, which is no end token."""
        said = Said()
        place = self._thinking
        if place is None:
            self._answer(self._marks.get(token) or self._vocabulary.pieces[token], said)
            return said
        before, was_thinking = place.place is Place.BEFORE, place.place is Place.THINKING
        place.advance(token)
        self._answer_began = self._answer_began or (before and place.place is Place.ANSWER)
        self._think(place.thought, said)
        if was_thinking and place.place is Place.ANSWER:
            self._white = ""
        marked = self._marks.get(token, b"") if place.place is Place.ANSWER and not was_thinking else b""
        self._answer(marked or place.answer, said)
        if self._stop_thinking_after is not None and place.place is Place.THINKING and self.ended is None:
            self.ended = "length" if place.tokens >= self._stop_thinking_after else None
        return said

    def finish(self) -> Said:
        """No more tokens come: what was held back. After a stop string that is nothing."""
        said = Said()
        if self.ended == "stop":
            return said
        if self._thinking is not None:
            self._thinking.finish()
            self._think(self._thinking.thought, said)
            self._answer(self._thinking.answer, said)
        for part in self._calls.finish() if self._calls is not None else []:
            self._show(part, said)
        said.text += self._stops.flush()
        self._white = ""
        return said

    def _think(self, piece: bytes, said: Said) -> None:
        """White space around the thought is left out."""
        text = self._thought_characters.feed(piece)
        self.characters_read += len(text)
        text = self._white + (text if self._thought_began else text.lstrip())
        self._thought_began = self._thought_began or bool(text)
        shown = text.rstrip()
        self._white = text[len(shown) :]
        said.reasoning += shown

    def _answer(self, piece: bytes, said: Said) -> None:
        """White space between a thought and the answer is left out."""
        text = self._characters.feed(piece)
        self.characters_read += len(text)
        if not self._answer_began:
            text = text.lstrip()
            self._answer_began = bool(text)
        if not text:
            return
        for part in [text] if self._calls is None else self._calls.feed(text):
            self._show(part, said)

    @property
    def stop_string(self) -> str:
        """The stop string that ended it; empty where none did."""
        return self._stops.matched or ""

    def _show(self, part: str | CallPiece, said: Said) -> None:
        if self.ended == "stop":
            return
        if isinstance(part, CallPiece):
            said.text += self._stops.flush()
            said.calls.append(part)
            return
        said.text += self._stops.feed(part)
        if self._stops.matched is not None:
            self.ended = "stop"
