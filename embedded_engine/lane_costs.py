"""What one lane's part of a step costs: a pass over the weights for its rows, and attention to its cells."""

from embedded_engine.speculation.costs import StepCosts

__all__ = ["LaneCosts"]


class LaneCosts:
    """Seconds = C(rows) + rows x cells x `cell_s`.

    Args:
        curve: C, of a lane that is nearly empty.
        cell_s: What a row pays for each cell of its lane.
    """

    def __init__(self, curve: StepCosts, cell_s: float) -> None:
        self.curve = curve
        self.cell_s = cell_s

    def call_s(self, rows: int, cells: int) -> float:
        """One call with so many rows, in a lane that uses so many cells; nothing is free."""
        return self.curve.of(rows) + rows * cells * self.cell_s if rows else 0.0

    def measured(self, rows: int, cells: int, seconds: float) -> None:
        """A call took so long, of which attention had its foreseen share."""
        self.curve.measured(rows, seconds * self.curve.of(rows) / self.call_s(rows, cells))

    def most_rows(self, budget_s: float, *, beside: int, cells: int, most: int) -> int:
        """How many rows a lane that has `beside` rows already may add for `budget_s`."""
        spent_s = self.call_s(beside, cells)
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            if self.call_s(beside + middle, cells) - spent_s <= budget_s:
                low = middle
            else:
                high = middle - 1
        return low
