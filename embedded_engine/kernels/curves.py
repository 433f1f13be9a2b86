"""Measures, at load, what rows cost: of one sequence, of several, and for every cell that a lane uses.

On these curves depend how much is drafted, how much of a prompt a step reads, and which lane a sequence is put into.
They are the fastest of a few calls each, on the clock of this thread, which stands still when others have its core.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from embedded_engine.kernels.port import ContextShape, Kernels, Row

__all__ = ["Curves", "measure_curves"]

_ROWS = (1, 2, 4, 8, 16, 31)
_SEQUENCES = (1, 2, 4, 8, 16)
_REPEATS = 3
_PATIENCE_S = 1.0
"""No new point is begun after this; what is missing is on the line through the last two."""

_CLOCK_S = 1e-7
"""No call takes no time, whatever a coarse clock says."""

_LEAST_POINTS = 2
_BEGINNING_TOKENS = 8
_FILL_TOKENS = 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Seconds of one call.

    Attributes:
        verify_s: By rows of one sequence.
        batch_s: By sequences of one row each.
        cell_s: What a row pays for each cell of its lane.
    """

    verify_s: dict[int, float]
    batch_s: dict[int, float]
    cell_s: float


def measure_curves(kernels: Kernels, shape: ContextShape) -> Curves:
    """Measure in the empty first lane, and leave it empty.

    Raises:
        DecodeError: The kernels failed.
    """
    started_s = time.perf_counter()
    beginning = [Row(0, 1, position, wants_logits=False) for position in range(_beginning(kernels, shape))]
    if beginning:
        kernels.decode(beginning)
    verify_s: dict[int, float] = {}
    most = min(shape.batch_rows, shape.kv_tokens - len(beginning))
    for count in [count for count in _ROWS if count <= most]:
        if len(verify_s) < _LEAST_POINTS or time.perf_counter() - started_s < _PATIENCE_S:
            verify_s[count] = _fastest(
                kernels, [Row(0, 1, len(beginning) + i, wants_logits=True) for i in range(count)]
            )
    kernels.remove(0)
    started_s = time.perf_counter()
    batch_s = {1: verify_s[1]}
    for count in _SEQUENCES[1:]:
        if count <= min(shape.sequences, most) and time.perf_counter() - started_s < _PATIENCE_S:
            batch_s[count] = _fastest(kernels, [Row(sequence, 1, 0, wants_logits=True) for sequence in range(count)])
    return Curves(verify_s=verify_s, batch_s=batch_s, cell_s=_cell_s(kernels, shape, verify_s[1]))


def _beginning(kernels: Kernels, shape: ContextShape) -> int:
    return min(_BEGINNING_TOKENS, shape.kv_tokens // 2, shape.batch_rows) if kernels.facts.forgets_tails else 0


def _fastest(kernels: Kernels, rows: Sequence[Row]) -> float:
    """Of a few calls; the rows are taken back after each."""
    seconds = []
    for _ in range(_REPEATS):
        started_s = time.thread_time()
        kernels.decode(rows)
        kernels.logits(len(rows) - 1)
        seconds.append(max(time.thread_time() - started_s, _CLOCK_S))
        for row in {row.sequence: row for row in reversed(rows)}.values():
            kernels.remove(row.sequence, row.position)
    return min(seconds)


def _cell_s(kernels: Kernels, shape: ContextShape, empty_s: float) -> float:
    """The slope between a lane that is nearly empty and one that is filled with copies of a short sequence.

    None where rows cannot be taken back: such a model attends to a state, not to cells.
    """
    if not kernels.facts.forgets_tails:
        return 0.0
    length = min(_FILL_TOKENS, shape.batch_rows, shape.kv_tokens // 4)
    kernels.decode([Row(0, 1, position, wants_logits=False) for position in range(length)])
    saved = kernels.save(0)
    copies = min(shape.sequences, (shape.kv_tokens - length) // length) - 1
    filled = [0, *(sequence for sequence in range(1, copies + 1) if kernels.restore(sequence, saved))]
    full_s = _fastest(kernels, [Row(0, 1, length, wants_logits=True)])
    for sequence in filled:
        kernels.remove(sequence)
    return max(0.0, full_s - empty_s) / (length * len(filled))
