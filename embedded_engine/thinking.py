"""Where a model's thinking begins and ends, token by token.

A model may think at the very beginning of its answer and nowhere else: its template has opened the thought, or it opens
it with its first token that is not white space. Where a mark is one token of the vocabulary only that token is the
mark; the same letters in other tokens are text. After the end mark everything is answer, marks included.
"""

from dataclasses import dataclass
from enum import Enum

from embedded_engine.kernels.port import Kernels
from embedded_engine.vocabulary import Vocabulary

__all__ = ["PAIRS", "Place", "ThinkingMarks", "ThinkingPlace", "marks_of"]

PAIRS = (("<think>", "</think>"), ("[THINK]", "[/THINK]"), ("<seed:think>", "</seed:think>"))


class Place(Enum):
    """Where the next token belongs."""

    BEFORE = "before"
    THINKING = "thinking"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingMarks:
    """A model's marks.

    Attributes:
        opening: The text that begins a thought.
        closing: The text that ends it.
        opening_token: The token that is `opening`; None where there is none.
        closing_token: Likewise.
        end: The tokens that end a thought as the model's template writes it.
    """

    opening: str
    closing: str
    opening_token: int | None
    closing_token: int | None
    end: tuple[int, ...]


def marks_of(template: str, kernels: Kernels) -> ThinkingMarks | None:
    """The marks of a model whose template thinks; None for the others."""
    for opening, closing in PAIRS:
        if opening in template or closing in template:
            end = kernels.tokenize(f"\n{closing}\n\n", add_special=False, parse_special=True)
            return ThinkingMarks(
                opening=opening,
                closing=closing,
                opening_token=_one_token(opening, kernels),
                closing_token=_one_token(closing, kernels),
                end=tuple(end),
            )
    return None


def _one_token(mark: str, kernels: Kernels) -> int | None:
    tokens = kernels.tokenize(mark, add_special=False, parse_special=True)
    return tokens[0] if len(tokens) == 1 else None


class ThinkingPlace:
    """One answer's place. `advance` it with every token.

    Args:
        marks: The model's marks.
        vocabulary: The model's tokens.
        opened: Whether the prompt ends inside a thought.

    Attributes:
        place: Where the next token belongs.
        tokens: How many tokens were thought, marks excluded where they are tokens.
        thought: The bytes that the last `advance` added to the thought.
        answer: And to the answer.
    """

    def __init__(self, marks: ThinkingMarks, vocabulary: Vocabulary, *, opened: bool) -> None:
        self.place = Place.THINKING if opened else Place.BEFORE
        self.tokens = 0
        self.thought = b""
        self.answer = b""
        self._marks = marks
        self._vocabulary = vocabulary
        self._opening = marks.opening.encode()
        self._closing = marks.closing.encode()
        self._held = b""

    def advance(self, token: int) -> None:
        """`token` came; what it added is in `thought` and `answer`."""
        self.thought = self.answer = b""
        piece = self._vocabulary.pieces[token]
        if self.place is Place.BEFORE:
            self._advance_before(token, piece)
        elif self.place is Place.THINKING:
            self._advance_thinking(token, piece)
        else:
            self.answer = piece

    def finish(self) -> None:
        """No more tokens come: what was held back is in `thought` or `answer`."""
        self.thought, self.answer = (self._held, b"") if self.place is Place.THINKING else (b"", self._held)
        self._held = b""

    def _advance_before(self, token: int, piece: bytes) -> None:
        if token == self._marks.opening_token:
            self.place, self._held = Place.THINKING, b""
            return
        self._held += piece
        said = self._held.lstrip()
        if self._marks.opening_token is None and self._opening.startswith(said[: len(self._opening)]):
            if len(said) >= len(self._opening):
                self.place, rest, self._held = Place.THINKING, said[len(self._opening) :], b""
                self._think(rest)
        elif said:
            self.place, self.answer, self._held = Place.ANSWER, self._held, b""

    def _advance_thinking(self, token: int, piece: bytes) -> None:
        if token == self._marks.closing_token:
            self.place = Place.ANSWER
            return
        self.tokens += 1
        self._think(piece)

    def _think(self, piece: bytes) -> None:
        if self._marks.closing_token is not None:
            self.thought = piece
            return
        text = self._held + piece
        thought, mark, rest = text.partition(self._closing)
        if mark:
            self.place, self.thought, self.answer, self._held = Place.ANSWER, thought, rest, b""
            return
        keep = len(text) - _begun(text, self._closing)
        self.thought, self._held = text[:keep], text[keep:]


def _begun(text: bytes, mark: bytes) -> int:
    """How many bytes at the end of `text` begin `mark`."""
    return next((size for size in range(min(len(mark) - 1, len(text)), 0, -1) if text.endswith(mark[:size])), 0)
