from collections.abc import Sequence

import pytest

from embedded_engine.answer_plan import AnswerPlan
from embedded_engine.choice import Choice, Running
from embedded_engine.errors import QueueFull
from embedded_engine.intake import Prepared
from embedded_engine.sampling.chooser import Chooser
from embedded_engine.sampling.parameters import Sampling
from embedded_engine.scheduler import Scheduler
from embedded_engine.speculation.costs import StepCosts
from embedded_engine.speculation.speculator import Speculator
from embedded_engine.vocabulary import Vocabulary
from tests.unit.embedded_engine.toy import ToyKernels

_GREEDY = Sampling(temperature=0, top_k=0, top_p=1, min_p=0, seed=0)
_PLAN = AnswerPlan(vocabulary=Vocabulary(ToyKernels()))


def _request(number: int, prompt_tokens: int = 4, *, n: int = 1, max_tokens: int = 4) -> Prepared:
    prompt = tuple(range(prompt_tokens))
    return Prepared(id=number, prompt=prompt, max_tokens=max_tokens, sampling=_GREEDY, n=n, plan=_PLAN)


def _begin(request: Prepared) -> Running:
    running = Running(request=request)
    running.choices += [
        Choice(
            running=running,
            index=index,
            chooser=Chooser(request.sampling, choice=index, prompt=request.prompt),
            draft=Speculator(StepCosts({1: 1.0})).begin(request.prompt, scope=""),
            tokens=list(request.prompt),
            transcript=request.plan.transcript(),
        )
        for index in range(request.n)
    ]
    return running


def _no_drafts(choices: Sequence[Choice], _room_rows: int) -> list[tuple[int, ...]]:
    return [()] * len(choices)


def _scheduler(**changes: int) -> Scheduler:
    return Scheduler(begin=_begin, **{"slots": 2, "kv_tokens": 100, "step_tokens": 8, "queue_limit": 2, **changes})


def test_a_prompt_is_read_in_pieces_and_only_its_last_row_wants_logits() -> None:
    """A step holds no more rows than it may."""
    scheduler = _scheduler()
    scheduler.add(_request(1, 20))
    positions = []
    for _ in range(3):
        rows = [row for item in scheduler.plan(_no_drafts) for row in item.rows]
        assert len(rows) <= 8
        positions += [(row.position, row.wants_logits) for row in rows]
        scheduler.running[1].choices[0].computed += len(rows)
    assert [(position, position == 19) for position in range(20)] == positions


def test_running_choices_come_before_prompts() -> None:
    """One row each and what is drafted; the prompt gets what is left."""
    scheduler = _scheduler()
    scheduler.add(_request(1))
    running = scheduler.running[1]
    running.prompt_is_read = True
    running.choices[0].computed = 4
    running.choices[0].tokens.append(9)
    scheduler.add(_request(2, 50))
    decoding, reading = scheduler.plan(lambda _choices, _room_rows: [(7, 8)])
    assert [(9, 4, True), (7, 5, True), (8, 6, True)] == [row[1:] for row in decoding.rows]
    assert (0, None, 5) == (decoding.first_logits, reading.first_logits, len(reading.rows))


def test_nobody_overtakes_in_the_queue() -> None:
    """A small request waits behind a large one, or the large one would wait for ever."""
    scheduler = _scheduler()
    scheduler.add(_request(1))
    scheduler.add(_request(2, n=2))
    scheduler.add(_request(3))
    assert ([1], [2, 3]) == (list(scheduler.running), [request.id for request in scheduler.queue])
    with pytest.raises(QueueFull):
        scheduler.add(_request(4))


def test_what_was_taken_is_given_back() -> None:
    """Slots when a choice ends, cells when the request does."""
    scheduler = _scheduler()
    scheduler.add(_request(1, n=2))
    running = scheduler.running[1]
    assert ([], 100 - 4 - 2 * 4) == (scheduler.free_slots, scheduler.free_kv_tokens)
    running.choices[0].over = True
    assert 0 == scheduler.free(running.choices[0])
    assert None is scheduler.free(running.choices[0])
    assert not running.over
    running.abandon()
    assert 1 == scheduler.free(running.choices[1])
    assert running.over
    scheduler.forget(running)
    assert ([0, 1], 100) == (scheduler.free_slots, scheduler.free_kv_tokens)
