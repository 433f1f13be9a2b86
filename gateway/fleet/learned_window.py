"""What is learned of a context window from what did not fit, where nobody says how large it is, or says it wrongly."""


class LearnedWindow:
    """``too_long_tokens`` is the least that was refused as too long, ``None`` where nothing was.

    It is counted as the forecast counts, which may be wrong by a factor for one text and right for another: whatever is
    served at that length takes the lesson back.
    """

    __slots__ = ("too_long_tokens",)

    def __init__(self) -> None:
        self.too_long_tokens: int | None = None

    def refused(self, tokens: int) -> None:
        """So much was too long."""
        known = self.too_long_tokens
        self.too_long_tokens = tokens if known is None else min(known, tokens)

    def served(self, tokens: int) -> None:
        """So much did fit."""
        if self.too_long_tokens is not None and tokens >= self.too_long_tokens:
            self.too_long_tokens = None
