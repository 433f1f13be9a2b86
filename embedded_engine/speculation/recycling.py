"""Which tokens the model last thought of, after each token.

X. Luo et al., "Turning Trash into Treasure: Accelerating Inference of Large Language Models with Token Recycling",
2024, keep the candidates of every row as an adjacency matrix and draft trees from it. A CPU has no room for trees: here
the same memory is one feature of the confidence head, which trusts a draft more that the model has thought of here.
"""

__all__ = ["Recycling"]

_KEPT = 4


class Recycling:
    """One choice's memory; as large as its text at most."""

    def __init__(self) -> None:
        self._after: dict[int, tuple[int, ...]] = {}

    def note(self, last: int, *candidates: int) -> None:
        """After `last` the model thought of these."""
        before = self._after.get(last, ())
        self._after[last] = (*candidates, *(token for token in before if token not in candidates))[:_KEPT]

    def after(self, last: int) -> tuple[int, ...]:
        """What it thought of, the latest first."""
        return self._after.get(last, ())
