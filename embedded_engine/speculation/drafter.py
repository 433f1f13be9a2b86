"""What every source of drafts has in common."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

__all__ = ["MOST_TOKENS", "Drafter", "Proposal"]

MOST_TOKENS = 16
"""A draft is never longer: beyond it a step costs a CPU more than any draft gives."""


class Proposal(NamedTuple):
    """How the text may go on.

    Attributes:
        tokens: What may come next, in order; at most `MOST_TOKENS`.
        shares: For each, of the times that its context was met, the share that it followed; 1 where nobody counts.
        match: How many tokens of the text agree with where the proposal comes from.
        times: How often that place was met.
    """

    tokens: Sequence[int]
    shares: Sequence[float]
    match: int
    times: int


class Drafter(Protocol):
    """Follows one choice's text and proposes its continuation from somewhere."""

    def take(self, token: int) -> None:
        """A token was emitted."""

    def propose(self) -> Proposal | None:
        """The continuation from here; None where the drafter has none."""
