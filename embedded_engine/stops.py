"""Ends a text before its first stop string, and never shows a part of one.

Text that could still become a stop string is held back: the longest end of what has come that begins one of them. When
the next text shows that it does not, it is released; when the generation ends, `flush` releases it.
"""

from collections.abc import Sequence

__all__ = ["StopStrings"]


class StopStrings:
    """One choice's filter. Cutting the text elsewhere does not change what is shown in the end.

    Attributes:
        matched: The stop string that ended the text; None so far.
        unshown_characters: How many of those fed last are not shown: held back, or from a stop string on.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._longest = max(map(len, self._stops), default=0)
        self._held = ""
        self.matched: str | None = None
        self.unshown_characters = 0

    def feed(self, text: str) -> str:
        """What of `text`, and of text held back before, can be shown now.

        The stop string that is complete first ends the text; of those complete together it is the longest. That
        is what reading character by character comes to. After a match nothing is shown any more.
        """
        if self.matched is not None or not text:
            return ""
        text = self._held + text
        self._held = ""
        found = [(start + len(stop), start, stop) for stop in self._stops if (start := text.find(stop)) >= 0]
        if found:
            _, start, self.matched = min(found)
            self.unshown_characters = len(text) - start
            return text[:start]
        keep = self._could_begin_at(text)
        self._held = text[keep:]
        self.unshown_characters = len(self._held)
        return text[:keep]

    def flush(self) -> str:
        """What was held back, now that no more text comes; nothing after a match."""
        held, self._held = self._held, ""
        self.unshown_characters = 0 if self.matched is None else self.unshown_characters
        return held

    def _could_begin_at(self, text: str) -> int:
        """The first place from which the rest of `text` begins a stop string; its end where there is none."""
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            rest = text[start:]
            if any(stop.startswith(rest) for stop in self._stops):
                return start
        return len(text)
