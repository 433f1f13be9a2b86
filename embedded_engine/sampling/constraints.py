"""What may steer a choice token by token, as the chooser sees it."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Budget", "Grammar", "Tokens"]

Tokens = NDArray[np.intp]


class Grammar(Protocol):
    """One choice's place in a grammar."""

    def permits(self, token: int) -> bool:
        """Whether `token` may come next; an end token may where the text is complete."""

    def allowed(self) -> Tokens:
        """All tokens that may come next, in ascending order; at least one."""

    def forced(self) -> tuple[int, ...]:
        """The only tokens that come next; empty where there is a choice."""

    def advance(self, token: int) -> None:
        """`token` is emitted; it was permitted."""


class Budget(Protocol):
    """One choice's place in its reasoning."""

    @property
    def thinking(self) -> bool:
        """Whether the next token belongs to a thought: the grammar waits for the answer."""

    @property
    def swapped(self) -> tuple[int, int] | None:
        """A token, and what is emitted wherever it is drawn: the second has the probability of both."""

    def forced(self) -> tuple[int, ...]:
        """The only tokens that come next; empty where there is a choice."""

    def advance(self, token: int) -> None:
        """`token` is emitted."""
