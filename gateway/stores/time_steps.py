"""Times in steps of a factor: what a report counts instead of a million numbers."""

from math import floor, isfinite, log2

STEPS_PER_DOUBLING = 24
"""A step is 2.9 % wide, so that a quantile is at most 1.5 % off."""

LEAST_S = 1e-6
_LEAST_STEP = floor(log2(LEAST_S) * STEPS_PER_DOUBLING)


def step_of(seconds: float | None) -> int | None:
    """The step that a time lies in, what is less than ``LEAST_S`` in that; ``None`` where it was not measured."""
    if seconds is None or not isfinite(seconds):
        return None
    return floor(log2(seconds) * STEPS_PER_DOUBLING) if seconds > LEAST_S else _LEAST_STEP


def seconds_of(step: int) -> float:
    """The middle of a step, in seconds, to four digits."""
    return float(f"{2 ** ((step + 0.5) / STEPS_PER_DOUBLING):.4g}")
