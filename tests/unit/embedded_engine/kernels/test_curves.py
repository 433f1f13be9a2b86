from typing import Any

import pytest

from embedded_engine.kernels.curves import measure_curves
from embedded_engine.kernels.port import ContextShape


@pytest.mark.parametrize(("kv_tokens", "sequences", "batch_rows"), [(600, 8, 64), (40, 8, 64), (16, 1, 4)])
def test_curves_are_measured_and_the_lane_is_left_empty(
    toy: Any, kv_tokens: int, sequences: int, batch_rows: int
) -> None:
    """As many points as there is room for."""
    kernels = toy()
    shape = ContextShape(
        kv_tokens=kv_tokens, sequences=sequences, threads=1, batch_rows=batch_rows, micro_batch_rows=31
    )
    kernels.open_context(shape)
    curves = measure_curves(kernels, shape)
    assert {1, 2} <= set(curves.verify_s) <= {1, 2, 4, 8, 16, 31}
    assert max(curves.verify_s) <= min(batch_rows, kv_tokens)
    assert max(curves.batch_s) <= sequences
    assert all(seconds > 0 for seconds in (*curves.verify_s.values(), *curves.batch_s.values()))
    assert curves.cell_s >= 0
    assert [] == [sequence for sequence, cells in kernels.cells.items() if cells]
