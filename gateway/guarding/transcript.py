"""The texts of a request or an answer as guards see them, one by one, and the way back.

Of a tool call's arguments guards see the values, each as a text of its own, with its escapes undone. A value that is
changed goes back as a string, so that arguments which were JSON are JSON afterwards, whatever was put in.
"""

from collections.abc import Iterator, Sequence

from gateway.guard import Text
from gateway.guarding.argument_texts import ArgumentText, argument_texts, resaid, said


class Transcript:
    """``texts`` are what guards see of ``wholes``: texts as they stand in a body, or as a stream comes to in all."""

    __slots__ = ("_pieces", "_wholes", "texts")

    def __init__(self, wholes: Sequence[Text]) -> None:
        self.texts: list[Text] = []
        self._wholes = wholes
        self._pieces: list[list[ArgumentText] | None] = []
        for whole in wholes:
            pieces = argument_texts(whole.text) if whole.kind == "arguments" else None
            self._pieces.append(pieces)
            self.texts += [whole] if pieces is None else [Text(text, whole.kind, whole.role) for text in said(pieces)]

    def rewritten(self, texts: Sequence[str]) -> dict[int, str]:
        """The wholes that are not the same any more once the transcript reads ``texts``: their number, and the text."""
        return {at: new for at, new in enumerate(self._read(iter(texts))) if new != self._wholes[at].text}

    def _read(self, texts: Iterator[str]) -> Iterator[str]:
        for whole, pieces in zip(self._wholes, self._pieces, strict=True):
            yield next(texts) if pieces is None else resaid(whole.text, pieces, texts)
