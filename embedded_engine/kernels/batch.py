"""The arrays that a batch points to, in the layout that both libraries begin with."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from embedded_engine.kernels.port import Row

__all__ = ["Batch"]


class Batch:
    """The arrays of a C batch, allocated once, filled for each call."""

    def __init__(self, rows: int) -> None:
        self.token = np.zeros(rows, np.int32)
        self.position = np.zeros(rows, np.int32)
        self.sequences_per_row = np.ones(rows, np.int32)
        self.sequence = np.zeros(rows, np.int32)
        self.wants_logits = np.zeros(rows, np.int8)
        self._sequence_pointers = (self.sequence.ctypes.data + 4 * np.arange(rows)).astype(np.uintp)

    def fill(self, rows: Sequence[Row]) -> None:
        """Write `rows` into the arrays."""
        n = len(rows)
        self.sequence[:n], self.token[:n], self.position[:n], self.wants_logits[:n] = np.array(rows, np.int32).T

    def struct(self, kind: type[ctypes.Structure], n_rows: int) -> ctypes.Structure:
        """The first `n_rows` rows as the library's own struct.

        Count, token, no embeddings, position, sequences, logits.
        """
        batch = kind(n_rows)
        arrays = (self.token, None, self.position, self.sequences_per_row, self._sequence_pointers, self.wants_logits)
        fields: Any = kind._fields_
        for array, (name, pointer) in zip(arrays, fields[1:], strict=False):  # ik_llama.cpp's batch has three more
            if array is not None:
                setattr(batch, name, array.ctypes.data_as(pointer))
        return batch
