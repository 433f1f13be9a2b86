"""The texts of a request or an answer as guards see them, one by one, and the way back.

Of a tool call's arguments guards see the values, each as a text of its own, with its escapes undone. A value that is
changed goes back as a string, so that arguments which were JSON are JSON afterwards, whatever was put in.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gateway.guard import Text
from gateway.guarding.argument_texts import ArgumentText, argument_texts, written


class _Leaf(NamedTuple):
    """A text of the transcript: of which of the whole texts it is, and where in it; ``None`` where it is all of it."""

    whole: int
    piece: ArgumentText | None


class Transcript:
    """``texts`` are what guards see of ``wholes``: texts as they stand in a body, or as a stream comes to in all."""

    __slots__ = ("_leaves", "_wholes", "texts")

    def __init__(self, wholes: Sequence[Text]) -> None:
        self.texts: list[Text] = []
        self._wholes = wholes
        self._leaves: list[_Leaf] = []
        for at, whole in enumerate(wholes):
            pieces = argument_texts(whole.text) if whole.kind == "arguments" else None
            for piece in (None,) if pieces is None else pieces:
                self._leaves.append(_Leaf(at, piece))
                self.texts.append(whole if piece is None else Text(piece.text, whole.kind, whole.role))

    def rewritten(self, texts: Sequence[str]) -> dict[int, str]:
        """The wholes that are not the same any more once the transcript reads ``texts``: their number, and the text."""
        changed: dict[int, str] = {}
        pieces: dict[int, list[tuple[ArgumentText, str]]] = {}
        for leaf, old, new in zip(self._leaves, self.texts, texts, strict=True):
            if new == old.text:
                continue
            if leaf.piece is None:
                changed[leaf.whole] = new
            else:
                pieces.setdefault(leaf.whole, []).append((leaf.piece, new))
        for at, told in pieces.items():
            changed[at] = _spliced(self._wholes[at].text, told)
        return changed


def _spliced(whole: str, told: Sequence[tuple[ArgumentText, str]]) -> str:
    """``whole`` with what is told anew of its pieces, which are in their order."""
    out: list[str] = []
    at = 0
    for piece, new in told:
        out += (whole[at : piece.begin], written(piece, whole, new))
        at = piece.end
    return "".join((*out, whole[at:]))
