"""Sample and match: the walk over one choice's rows that makes speculation lossless.

A step decodes the choice's next token and its drafted ones, d_1 to d_k, so that row j has the logits after d_j. At each
row the token is drawn from p~, the distribution after the whole sampling pipeline, exactly as without a draft; if it is
the one that was drafted, the next row is the one that plain decoding would have computed next, and the walk goes on.
Else the rows after it belong to a text that was not written, and nobody looks at them.

So the tokens are the ones of plain decoding, whatever was drafted, and the expected number of accepted ones is
sum_i prod_{j<=i} p~(d_j), which is the most that a fixed draft allows.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from embedded_engine.kernels.port import Logits

__all__ = ["Chooses", "Verified", "walk"]


class Verified(Protocol):
    """A token drawn from p~; `sampling.chooser.Drawn` is one."""

    @property
    def token(self) -> int:
        """The token."""

    def probability(self, token: int) -> float:
        """p~ of any token."""


_Drawn_co = TypeVar("_Drawn_co", bound=Verified, covariant=True)


class Chooses(Protocol[_Drawn_co]):
    """Draws one choice's tokens; `sampling.chooser.Chooser` does."""

    def draw(self, logits: Logits) -> _Drawn_co:
        """The next token; changes nothing."""

    def advance(self, token: int) -> None:
        """The token is emitted: penalties, grammar and position go on."""


def walk(
    chooser: Chooses[_Drawn_co],
    logits: Callable[[int], Logits],
    drafted: Sequence[int],
    *,
    doubts: Callable[[_Drawn_co, Logits], bool] | None = None,
) -> Iterator[tuple[_Drawn_co, float | None]]:
    """What this step emits: a token for each draft that was right, and one more.

    It is lazy: a row is read when its token is asked for. Who finds that the text is over (an end token, a stop string,
    enough tokens) stops asking, and what was drafted beyond the end has no effect.

    Args:
        chooser: The choice's; it is advanced by each token, before the token is yielded.
        logits: The logits of a row: row 0 is that of the choice's own next token, row j that of draft j.
        drafted: d_1 to d_k.
        doubts: Whether a token, drawn from a row, may owe itself to rounding. The walk ends before it, and the chooser
            knows nothing of it.

    Yields:
        Each token as it was drawn, with p~ of what was drafted in its place; None for the last, where nothing was.
    """
    for row in range(len(drafted) + 1):
        seen = logits(row)
        drawn = chooser.draw(seen)
        if doubts is not None and doubts(drawn, seen):
            return
        draft = drafted[row] if row < len(drafted) else None
        probability = None if draft is None else drawn.probability(draft)
        chooser.advance(drawn.token)
        yield drawn, probability
        if drawn.token != draft:
            return
