from collections.abc import Callable
from typing import Any

import pytest

from embedded_engine.choice import Choice, Running
from embedded_engine.errors import QueueFull
from embedded_engine.intake import Prepared
from embedded_engine.kernels.port import ContextShape
from embedded_engine.lane_costs import LaneCosts
from embedded_engine.memory import CellMemory
from embedded_engine.prefix_cache import PrefixCache
from embedded_engine.prefix_tree import Stored
from embedded_engine.saved_states import SavedStates
from embedded_engine.scheduler import Scheduler
from embedded_engine.speculation.costs import StepCosts

_LANE_SEQUENCES = 8


class _Bench:
    """A scheduler over toy kernels, with a request's arrival and end in the test's hands."""

    def __init__(self, kernels: Any, begin: Callable[[Running], list[Choice]], **changes: int) -> None:
        values = {"slots": 2, "lane_tokens": 100, "lanes": 1, "queue_limit": 2, **changes}
        shape = ContextShape(
            lanes=values["lanes"],
            kv_tokens=values["lane_tokens"],
            sequences=_LANE_SEQUENCES,
            threads=1,
            batch_rows=64,
            micro_batch_rows=31,
        )
        kernels.open_context(shape)
        self.memory = CellMemory(
            kernels, lanes=shape.lanes, lane_tokens=shape.kv_tokens, lane_sequences=_LANE_SEQUENCES
        )
        self.costs = LaneCosts(StepCosts({1: 1.0, 8: 1.7}), cell_s=0.001)
        self.scheduler = Scheduler(
            self.memory,
            PrefixCache(self.memory, SavedStates[Stored](memory_bytes=1000)),
            self.costs,
            slots=values["slots"],
            queue_limit=values["queue_limit"],
            begin=begin,
        )
        self._kernels = kernels

    def add(self, request: Prepared, due_s: float = 0.0) -> Running:
        running = Running(request=request, due_s=due_s)
        self.scheduler.add(running, 0.0)
        return running

    def lanes(self, running: Running) -> list[int]:
        """Where its choices are."""
        return [self.memory.lane_of(choice.slot) for choice in running.choices if choice.slot is not None]

    def grow(self, choice: Choice, tokens: int) -> None:
        """As if so many tokens of it had been decoded and, beyond its prompt, emitted."""
        if choice.slot is None:
            raise AssertionError
        choice.tokens += [7] * max(0, choice.computed + tokens + 1 - len(choice.tokens))
        choice.computed += tokens
        choice.running.prompt_is_read = True
        self.memory.grew(choice.slot, tokens)
        self._kernels.hold(choice.slot, choice.tokens[: choice.computed])


@pytest.fixture
def bench(toy: Any, new_choices: Any) -> Callable[..., _Bench]:
    """Makes a scheduler."""
    return lambda **changes: _Bench(toy(), new_choices, **changes)


def test_the_shorter_work_goes_first(bench: Any, prepared: Any) -> None:
    """Whoever would be done earlier if all ran alone; equals in the order in which they came."""
    one = bench(slots=1, queue_limit=9)
    first = one.add(prepared(1))
    for number, due_s in [(2, 9.0), (3, 4.0), (4, 9.0)]:
        one.add(prepared(number), due_s)
    order = []
    running = first
    for _ in range(4):
        order.append(running.request.id)
        one.scheduler.drop(running)
        one.scheduler.admit(0.0)
        running = one.scheduler.placed[0].running if one.scheduler.placed else running
    assert [1, 3, 2, 4] == order


def test_nobody_overtakes_who_waits_for_more_room(bench: Any, prepared: Any) -> None:
    """A small request waits behind a large one, or the large one would wait for ever; the queue is bounded."""
    one = bench()
    first = one.add(prepared(1))
    large = one.add(prepared(2, n=2), due_s=1.0)
    small = one.add(prepared(3), due_s=2.0)
    assert 2 == one.scheduler.queued
    with pytest.raises(QueueFull):
        one.add(prepared(4), due_s=3.0)
    assert [1, 2, 3] == list(one.scheduler.requests)
    one.scheduler.drop(first)
    one.scheduler.admit(0.0)
    assert ([0, 0], []) == (one.lanes(large), one.lanes(small))


def test_what_was_taken_is_given_back(bench: Any, prepared: Any) -> None:
    """Slots and cells, when a choice is released and when a request is dropped."""
    one = bench()
    running = one.add(prepared(1, n=2))
    one.grow(running.choices[0], 4)
    one.scheduler.share_prompt(running)
    assert 96 == one.memory.free_tokens(0)
    one.scheduler.release(running.choices[0], keep=True)
    one.scheduler.release(running.choices[0], keep=True)
    assert (1, 96) == (len(one.scheduler.placed), one.memory.free_tokens(0))
    one.scheduler.drop(running)
    assert (0, 100) == (len(one.scheduler.placed), one.memory.free_tokens(0))


def test_a_request_is_admitted_by_what_it_needs_now(bench: Any, prepared: Any) -> None:
    """Its prompt and a little more, and not the longest answer that it may come to."""
    one = bench(slots=4)
    for number in range(3):
        one.add(prepared(number, 30, max_tokens=70))
    assert [0, 1] == [choice.running.request.id for choice in one.scheduler.placed]


def test_short_sequences_share_a_lane_and_long_ones_go_apart(bench: Any, prepared: Any) -> None:
    """A pass over the weights costs 1 s here, and attention a millisecond a row and cell."""
    one = bench(lanes=3, slots=8, lane_tokens=4000)
    short = [one.add(prepared(number, 20)) for number in range(3)]
    assert [[0], [0], [0]] == [one.lanes(running) for running in short]
    long = [one.add(prepared(number, 2000)) for number in (10, 11)]
    assert [[1], [2]] == [one.lanes(running) for running in long]


def test_a_full_lane_takes_the_cells_of_the_least_urgent(bench: Any, prepared: Any) -> None:
    """It waits, with all its tokens, and goes on with the cells that were saved."""
    one = bench(slots=4)
    urgent, patient = one.add(prepared(1, max_tokens=90), due_s=1.0), one.add(prepared(2, max_tokens=90), due_s=2.0)
    one.grow(urgent.choices[0], 50)
    one.grow(patient.choices[0], 50)
    one.scheduler.make_room()
    victim = patient.choices[0]
    assert ([urgent.choices[0]], None, 0) == (one.scheduler.placed, victim.slot, victim.computed)
    assert (51, 50, 0) == (len(victim.tokens), one.memory.free_tokens(0), one.scheduler.queued)
    one.scheduler.admit(0.0)
    assert victim.slot is None
    one.scheduler.drop(urgent)
    one.scheduler.admit(0.0)
    assert 50 == victim.computed
    assert victim.decodes


def test_a_prompt_that_is_thrown_out_begins_again_with_all_its_choices(bench: Any, prepared: Any) -> None:
    """Nothing of it was drawn yet: it waits for slots for all of them."""
    one = bench(slots=4)
    urgent, patient = one.add(prepared(1), due_s=1.0), one.add(prepared(2, 40, n=2, max_tokens=2), due_s=2.0)
    choices = list(patient.choices)
    one.grow(urgent.choices[0], 100)
    one.scheduler.make_room()
    assert [None, None] == [choice.slot for choice in choices]
    one.scheduler.drop(urgent)
    one.scheduler.admit(0.0)
    assert choices == patient.choices
    assert [0, 0] == one.lanes(patient)


def test_a_request_that_waits_can_be_dropped(bench: Any, prepared: Any) -> None:
    """Its neighbours keep their places."""
    one = bench(slots=1, queue_limit=9)
    first = one.add(prepared(0))
    waiting = [one.add(prepared(number)) for number in (1, 2, 3)]
    one.scheduler.drop(waiting[1])
    assert 2 == one.scheduler.queued
    for running in (first, waiting[0], waiting[2]):
        assert [running] == [choice.running for choice in one.scheduler.placed]
        one.scheduler.drop(running)
        one.scheduler.admit(0.0)
    assert ({}, []) == (one.scheduler.requests, one.scheduler.placed)


def test_sequences_move_when_their_lanes_have_changed(bench: Any, prepared: Any) -> None:
    """Two that are short belong into one lane, and two that have grown apart; what is remembered moves along."""
    one = bench(lanes=2, slots=8, lane_tokens=4000)
    blocker, first, second = (
        one.add(prepared(number, size, max_tokens=900)) for number, size in [(1, 1500), (2, 40), (3, 1500)]
    )
    for running in (blocker, first, second):
        one.grow(running.choices[0], len(running.request.prompt))
        one.scheduler.share_prompt(running)
    assert one.lanes(blocker) != one.lanes(second)
    one.scheduler.drop(blocker if one.lanes(first) == one.lanes(blocker) else second)
    left = second if second.choices[0].slot is not None else blocker
    assert one.lanes(left) != one.lanes(first)
    for _ in range(8):
        one.scheduler.spread()
    assert one.lanes(left) != one.lanes(first)  # attention to 1,500 cells costs more than a pass over the weights
    one.scheduler.drop(left)
    third = one.add(prepared(4, 60, max_tokens=900))
    choice = third.choices[0]
    one.grow(choice, 60)
    one.scheduler.share_prompt(third)
    moved = one.memory.move(choice.slot, 1 - one.lanes(first)[0])
    one.scheduler._cache.moved(choice.slot, moved)
    choice.slot = moved
    assert one.lanes(third) != one.lanes(first)
    for _ in range(8):
        one.scheduler.spread()
    assert one.lanes(third) == one.lanes(first)
    assert [60, 60] == [choice.computed, one.memory.length(choice.slot)]
    assert choice.slot == one.scheduler._cache.find("", third.request.prompt).stored.sequence
