"""Least squares with coefficients that cannot be negative, for a handful of unknowns."""

from collections.abc import Sequence
from itertools import combinations
from math import inf


def not_negative(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """The coefficients, none below zero, whose sums over each row come nearest to its value.

    Every choice of unknowns that stay zero is tried, so it is exact, and meant for five unknowns at most.
    """
    unknowns = len(rows[0])
    scales = [max(abs(row[at]) for row in rows) or 1.0 for at in range(unknowns)]
    scaled = [[row[at] / scales[at] for at in range(unknowns)] for row in rows]
    best, least = [0.0] * unknowns, inf
    for size in range(unknowns + 1):
        for chosen in combinations(range(unknowns), size):
            solved = _solve(scaled, values, chosen)
            if solved is None or any(value < 0 for value in solved):
                continue
            found = [0.0] * unknowns
            for at, value in zip(chosen, solved, strict=True):
                found[at] = value
            error = sum((_dot(row, found) - value) ** 2 for row, value in zip(scaled, values, strict=True))
            if error < least:
                best, least = found, error
    return [value / scale for value, scale in zip(best, scales, strict=True)]


def _solve(rows: Sequence[Sequence[float]], values: Sequence[float], chosen: Sequence[int]) -> list[float] | None:
    """The normal equations of the chosen unknowns, by elimination; ``None`` where they have no single solution."""
    size = len(chosen)
    matrix = [
        [sum(row[a] * row[b] for row in rows) for b in chosen]
        + [sum(row[a] * value for row, value in zip(rows, values, strict=True))]
        for a in chosen
    ]
    for at in range(size):
        pivot = max(range(at, size), key=lambda row: abs(matrix[row][at]))
        matrix[at], matrix[pivot] = matrix[pivot], matrix[at]
        if abs(matrix[at][at]) < 1e-12 * len(rows):  # of sums of numbers up to 1
            return None
        for below in range(size):
            if below != at:
                factor = matrix[below][at] / matrix[at][at]
                matrix[below] = [mine - factor * other for mine, other in zip(matrix[below], matrix[at], strict=True)]
    return [matrix[at][size] / matrix[at][at] for at in range(size)]


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(one * other for one, other in zip(left, right, strict=True))
