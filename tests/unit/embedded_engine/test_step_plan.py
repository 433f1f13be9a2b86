"""Streams first, and prompts in what time these leave."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from embedded_engine.choice import Choice, Running
from embedded_engine.intake import Prepared
from embedded_engine.kernels.port import ContextShape
from embedded_engine.lane_costs import LaneCosts
from embedded_engine.memory import CellMemory
from embedded_engine.speculation.costs import StepCosts
from embedded_engine.step_plan import Planned, StepPlanner

_ROW_S, _PASS_S, _CELL_S = 1.0, 4.0, 0.01
_COSTS = {rows: _PASS_S + _ROW_S * rows for rows in (1, 64)}


class _Bench:
    def __init__(self, kernels: Any, begin: Callable[[Running], list[Choice]], step_tokens: int) -> None:
        kernels.open_context(
            ContextShape(lanes=2, kv_tokens=1000, sequences=8, threads=1, batch_rows=64, micro_batch_rows=31)
        )
        self.memory = CellMemory(kernels, lanes=2, lane_tokens=1000, lane_sequences=8)
        self.planner = StepPlanner(self.memory, LaneCosts(StepCosts(_COSTS), _CELL_S), step_tokens=step_tokens)
        self.placed: list[Choice] = []
        self._kernels, self._begin = kernels, begin

    def place(self, request: Prepared, computed: int, lane: int = 0) -> Choice:
        """A choice that has come so far."""
        running = Running(request=request)
        running.choices = self._begin(running)
        choice = running.choices[0]
        choice.slot = self.memory.claim(lane)
        choice.computed = computed
        if computed >= len(request.prompt):
            running.prompt_is_read = True
            choice.tokens += [7] * (computed + 1 - len(choice.tokens))
        self.memory.grew(choice.slot, computed)
        self._kernels.hold(choice.slot, choice.tokens[:computed])
        self.placed.append(choice)
        return choice

    def plan(self, drafted: Sequence[tuple[int, ...]] | None = None) -> list[Planned]:
        return self.planner.plan(self.placed, lambda choices, _room, _row_s: drafted or [()] * len(choices))


@pytest.fixture
def bench(toy: Any, new_choices: Any) -> Callable[..., _Bench]:
    """Makes a planner over toy kernels, where a row costs 1 s, a pass 4 s, and attention 10 ms a row and cell."""
    return lambda step_tokens=64: _Bench(toy(), new_choices, step_tokens)


def test_a_prompt_is_read_in_whole_steps_where_nobody_streams(bench: Any, prepared: Any) -> None:
    """And only its last row wants logits."""
    one = bench(step_tokens=8)
    choice = one.place(prepared(1, 20), 0)
    seen = []
    while choice.uncomputed_tokens:
        (planned,) = one.plan()
        assert len(planned.rows) <= 8
        seen += [(row.position, row.wants_logits) for row in planned.rows]
        assert (planned.first_logits is None) == (len(seen) < 20)
        choice.computed += len(planned.rows)
    assert [(position, position == 19) for position in range(20)] == seen


def test_streams_have_their_rows_and_drafts_before_any_prompt(bench: Any, prepared: Any) -> None:
    """The number of a row is its place in the whole step."""
    one = bench()
    one.place(prepared(1), 6)
    one.place(prepared(2, 50), 0)
    one.place(prepared(3), 4, lane=1)
    first, second, reading = one.plan([(8, 9)])
    assert [(7, 6, True), (8, 7, True), (9, 8, True)] == [row[1:] for row in first.rows]
    assert (0, 3, None) == (first.first_logits, second.first_logits, reading.first_logits)
    assert (3, 3, 31) == (len(first.rows), len(second.rows), len(reading.rows))


def test_a_long_prompt_takes_as_much_time_as_the_streams_do(bench: Any, prepared: Any) -> None:
    """The deeper it is, the fewer rows that is; one at least."""
    counts = []
    for depth in (0, 200, 400, 900):
        one = bench()
        one.place(prepared(1, 10), 99)
        one.place(prepared(2, 950), depth, lane=1)
        counts.append(len(one.plan()[1].rows))
    stream_s = _PASS_S + _ROW_S + 99 * _CELL_S
    expected = [max(1, int((stream_s - _PASS_S) / (_ROW_S + depth * _CELL_S))) for depth in (0, 200, 400, 900)]
    assert expected == counts
    assert [1, 1] == counts[-2:]


def test_prompts_are_read_most_urgent_first(bench: Any, prepared: Any) -> None:
    """The next one has what the first leaves of the step."""
    one = bench(step_tokens=30)
    one.place(prepared(1, 20), 0)
    one.place(prepared(2, 20), 0)
    assert [20, 10] == [len(planned.rows) for planned in one.plan()]


def test_no_row_is_planned_without_a_cell(bench: Any, prepared: Any) -> None:
    """A full lane lets its prompts wait; streams have had their cells before."""
    one = bench()
    one.place(prepared(1, 10), 990)
    one.place(prepared(2, 20), 5)
    rows = [len(planned.rows) for planned in one.plan()]
    assert [1, 4] == rows
    assert one.memory.free_tokens(0) == sum(rows)
