"""Turns the bytes of tokens into whole characters.

A token may hold half a character, or bytes that are no character at all. Halves wait for their rest. Bytes that can
never become a character give one U+FFFD for each maximal part, as the Unicode standard recommends and Python decodes. A
half that is still waiting when the generation ends is dropped: it was never a character, and a stream cannot take back
what it has shown.
"""

import codecs

__all__ = ["Characters"]


class Characters:
    """One choice's incremental decoder. Cutting the bytes elsewhere does not change the text."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, piece: bytes) -> str:
        """The characters that `piece` completes."""
        return self._decoder.decode(piece)
