"""The count of cells is the kernels' own, whatever is shared, cut, saved and restored."""

import random
from typing import Any

import pytest

from embedded_engine.kernels.port import ContextShape, Row
from embedded_engine.memory import CellMemory

_LANES, _SEQUENCES, _CELLS = 2, 4, 60


@pytest.fixture
def pair(toy: Any) -> tuple[CellMemory, Any]:
    """A memory of two small lanes, and its kernels."""
    kernels = toy()
    kernels.open_context(
        ContextShape(
            lanes=_LANES, kv_tokens=_CELLS, sequences=_SEQUENCES, threads=1, batch_rows=64, micro_batch_rows=31
        )
    )
    return CellMemory(kernels, lanes=_LANES, lane_tokens=_CELLS, lane_sequences=_SEQUENCES), kernels


class _Walk:
    """Random steps over a memory, and what every sequence should hold."""

    def __init__(self, memory: CellMemory, kernels: Any) -> None:
        self._memory, self._kernels = memory, kernels
        self._dice = random.Random(7)  # noqa: S311 - steps, not secrets
        self.held: dict[int, list[int]] = {}

    def step(self) -> None:
        actions = [self._grow, self._grow, self._claim, self._cut, self._release, self._share, self._restore]
        self._dice.choice(actions if self.held else [self._claim])()

    def _any(self) -> int:
        return self._dice.choice(list(self.held))

    def _grow(self) -> None:
        sequence = self._any()
        count = min(self._dice.randint(1, 20), self._memory.free_tokens(self._memory.lane_of(sequence)))
        start = len(self.held[sequence])
        rows = [Row(sequence, self._dice.randint(0, 255), start + i, wants_logits=False) for i in range(count)]
        if rows:
            self._kernels.decode(rows)
        self._memory.grew(sequence, count)
        self.held[sequence] += [row.token for row in rows]

    def _claim(self) -> None:
        lane = self._dice.choice(self._memory.lanes)
        if self._memory.free_sequences(lane):
            self.held[self._memory.claim(lane)] = []

    def _share(self) -> None:
        source = self._any()
        lane, length = self._memory.lane_of(source), self._dice.randint(0, len(self.held[source]))
        if self._memory.free_sequences(lane):
            target = self._memory.claim(lane)
            self._memory.share(source, target, length)
            self.held[target] = self.held[source][:length]

    def _restore(self) -> None:
        source, lane = self._any(), self._dice.choice(self._memory.lanes)
        whole = self._memory.length(source)
        keep = self._dice.randint(0, whole)
        if self._memory.free_sequences(lane):
            target = self._memory.claim(lane)
            done = self._memory.restore(target, self._memory.save(source), length=whole, keep=keep)
            self.held[target] = self.held[source][:keep] if done else []

    def _cut(self) -> None:
        sequence = self._any()
        length = self._dice.randint(0, len(self.held[sequence]) + 2)
        self._memory.cut(sequence, length)
        del self.held[sequence][length:]

    def _release(self) -> None:
        sequence = self._any()
        self._memory.release(sequence)
        del self.held[sequence]


def test_cells_are_counted_as_the_kernels_have_them(pair: tuple[CellMemory, Any]) -> None:
    """Two thousand random steps; after each the free cells, and what every sequence holds, agree."""
    memory, kernels = pair
    walk = _Walk(memory, kernels)
    for _ in range(2000):
        walk.step()
        assert walk.held == {sequence: list(kernels.tokens(sequence)) for sequence in walk.held}
        assert {s: len(tokens) for s, tokens in walk.held.items()} == {s: memory.length(s) for s in walk.held}
        for lane in memory.lanes:
            assert kernels.used_cells(lane) == memory.used_tokens(lane)


def test_what_a_failed_call_left_is_gone_with_its_sequence(pair: tuple[CellMemory, Any]) -> None:
    """A batch may fail when it has written cells that nobody counted."""
    memory, kernels = pair
    sequence = memory.claim(0)
    kernels.hold(sequence, [1, 2, 3])
    memory.release(sequence)
    assert () == kernels.tokens(sequence)
    assert (_CELLS, _SEQUENCES) == (memory.free_tokens(0), memory.free_sequences(0))
