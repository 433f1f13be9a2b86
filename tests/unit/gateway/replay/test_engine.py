import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.replay.engine import Engine, Event, Job, Mark
from gateway.replay.engine_model import EngineModel

Serve = Callable[..., list[Event]]
MakeJob = Callable[..., Job]


def _times(jobs: list[Job]) -> list[Any]:
    return [(pytest.approx(job.first_token_s), pytest.approx(job.finished_s)) for job in jobs]


def test_a_prompt_is_read_then_each_step_writes_a_token(plain_model: EngineModel, serve: Serve, job: MakeJob) -> None:
    """100 tokens take a tenth of a second to read and the step a tenth; two more tokens take two steps."""
    one = job(0, 1.0, 100, 3)
    serve(Engine(plain_model, cache_blocks=10), [one])
    assert _times([one]) == [(1.2, 1.4)]


def test_a_long_prompt_is_read_in_chunks_of_a_step_each(plain_model: EngineModel, serve: Serve, job: MakeJob) -> None:
    """250 tokens are three steps: 0.25 s of reading, and 0.1 s for each step."""
    one = job(0, 0.0, 250, 1)
    events = serve(Engine(plain_model, cache_blocks=10), [one])
    assert _times([one]) == [(0.55, 0.55)]
    assert [Mark.FIRST_TOKEN, Mark.FINISHED] == [mark for _, mark, _, _ in events]


def test_who_writes_goes_on_writing_beside_the_chunks_of_another(
    plain_model: EngineModel, serve: Serve, job: MakeJob
) -> None:
    """One token in each step, which takes longer for the chunk in it."""
    writer, reader = job(0, 0.0, 10, 5), job(1, 0.11, 200, 1)
    serve(Engine(plain_model, cache_blocks=10), [writer, reader])
    # Steps end at 0.11, with chunks of the reader at 0.31 and 0.51, and without any at 0.61 and 0.71.
    assert _times([writer, reader]) == [(0.11, 0.71), (0.51, 0.51)]


def test_short_prompts_share_a_chunk_and_others_wait_their_turn(
    plain_model: EngineModel, serve: Serve, job: MakeJob
) -> None:
    """Two of 50 tokens fill a step; the third is read in the next one."""
    jobs = [job(number, 0.0, 50, 1) for number in range(3)]
    serve(Engine(plain_model, cache_blocks=10), jobs)
    assert _times(jobs) == [(0.2, 0.2), (0.2, 0.2), (0.35, 0.35)]


def test_what_is_cached_is_not_read_again_but_for_the_last_token(
    plain_model: EngineModel, serve: Serve, job: MakeJob
) -> None:
    """The answer's first token follows from the prompt's last one."""
    first, again, longer = (
        job(0, 0.0, 100, 1, range(10)),
        job(1, 1.0, 100, 1, range(10)),
        job(2, 2.0, 150, 1, range(15)),
    )
    serve(Engine(plain_model, cache_blocks=100), [first, again, longer])
    assert [0, 99, 100] == [one.cached_tokens for one in (first, again, longer)]
    assert _times([again, longer]) == [(1.101, 1.101), (2.15, 2.15)]


def test_a_prefix_that_is_being_read_can_not_be_used_yet(plain_model: EngineModel, serve: Serve, job: MakeJob) -> None:
    """Two that come together read the same words twice."""
    jobs = [job(number, 0.0, 100, 1, range(10)) for number in range(2)]
    serve(Engine(plain_model, cache_blocks=100), jobs)
    assert [0, 99] == [one.cached_tokens for one in jobs]  # the second begins when the first has been read
    jobs = [job(number, 0.0, 50, 1, range(5)) for number in range(2)]
    serve(Engine(plain_model, cache_blocks=100), jobs)
    assert [0, 0] == [one.cached_tokens for one in jobs]  # both in one step


def test_no_more_are_written_at_a_time_than_there_are_places(
    plain_model: EngineModel, serve: Serve, job: MakeJob
) -> None:
    """The second begins when the first has ended."""
    model = replace(plain_model, most_running=1)
    jobs = [job(0, 0.0, 100, 3), job(1, 0.0, 100, 1)]
    serve(Engine(model, cache_blocks=10), jobs)
    assert _times(jobs) == [(0.2, 0.4), (0.6, 0.6)]


def test_no_prompt_begins_for_which_there_is_no_memory_unless_it_is_alone(
    plain_model: EngineModel, serve: Serve, job: MakeJob
) -> None:
    """A prompt longer than the memory is read when nobody else is there: it must come to an end too."""
    model = replace(plain_model, most_held_tokens=150)
    jobs = [job(0, 0.0, 100, 3), job(1, 0.0, 100, 1), job(2, 0.0, 200, 1)]
    serve(Engine(model, cache_blocks=10), jobs)
    assert _times(jobs) == [(0.2, 0.4), (0.6, 0.6), (1.0, 1.0)]


def test_steps_grow_with_sequences_and_with_what_they_hold(serve: Serve, job: MakeJob) -> None:
    """Each step writes one token a sequence, which the next one holds too."""
    model = EngineModel(
        prefill_tokens_per_s=1e9, attention_tokens=1e15, step_s=1.0, sequence_s=0.5, held_token_s=0.01, chunk_tokens=100
    )
    jobs = [job(0, 0.0, 20, 4), job(1, 0.0, 30, 4)]
    serve(Engine(model, cache_blocks=10), jobs)
    # The first step runs empty. Then two sequences hold 50, 52 and 54 tokens.
    expected = 1.0 + sum(1.0 + 2 * 0.5 + held * 0.01 for held in (50, 52, 54))
    assert _times(jobs)[1] == (pytest.approx(1.0), pytest.approx(expected))


def test_attention_makes_a_token_dearer_behind_a_long_context() -> None:
    """Twice as dear behind ``attention_tokens``."""
    model = EngineModel(prefill_tokens_per_s=1000.0, attention_tokens=10_000.0)
    assert 1.05 == pytest.approx(model.prefill_s(1000, 0))
    assert 2.05 == pytest.approx(model.prefill_s(1000, 10_000))


def test_waiting_is_that_of_a_queue_with_random_arrivals_and_fixed_service(
    plain_model: EngineModel, serve: Serve, job: MakeJob
) -> None:
    """Pollaczek and Khinchin: an M/D/1 queue with load r waits r / (2 (1 - r)) services, on average."""
    rng = random.Random(3)  # noqa: S311  # the same every time
    service_s, load = 0.2, 0.7
    jobs, now_s = [], 0.0
    for number in range(20_000):
        now_s += rng.expovariate(load / service_s)
        jobs.append(job(number, now_s, 100, 1))
    serve(Engine(plain_model, cache_blocks=1), jobs)
    waited_s = sum(one.finished_s - one.arrived_s - service_s for one in jobs) / len(jobs)
    assert load / (2 * (1 - load)) * service_s == pytest.approx(waited_s, rel=0.05)


arrivals = st.lists(
    st.tuples(
        st.floats(0, 2),  # since the one before
        st.integers(1, 900),
        st.integers(1, 60),
        st.lists(st.integers(0, 5), max_size=12),
    ),
    min_size=1,
    max_size=25,
)


def _jobs(drawn: list[Any]) -> list[Job]:
    jobs, now_s = [], 0.0
    for number, (gap_s, prompt_tokens, output_tokens, blocks) in enumerate(drawn):
        now_s += gap_s
        jobs.append(
            Job(number, arrived_s=now_s, prompt_tokens=prompt_tokens, output_tokens=output_tokens, blocks=tuple(blocks))
        )
    return jobs


MODEL = EngineModel(
    prefill_tokens_per_s=2000.0, step_s=0.02, held_token_s=1e-6, chunk_tokens=128, most_running=4, block_tokens=16
)


def _play(jobs: list[Job], *, looks_s: list[float]) -> tuple[Engine, list[Event]]:
    engine, events = Engine(MODEL, cache_blocks=6), []
    looks = sorted(looks_s)
    for one in jobs:
        while looks and looks[0] <= one.arrived_s:
            engine.advance(looks.pop(0), events)
        engine.advance(one.arrived_s, events)
        engine.submit(one)
    engine.advance(math.inf, events)
    return engine, sorted(events, key=lambda event: event[:3])


@given(drawn=arrivals)
@settings(max_examples=150)
def test_every_job_begins_and_ends_exactly_once_and_leaves_nothing(drawn: list[Any]) -> None:
    """First token after arrival, end after first token, and never more from the cache than the prompt has."""
    jobs = _jobs(drawn)
    engine, events = _play(jobs, looks_s=[])
    for mark in Mark:
        assert list(range(len(jobs))) == sorted(index for _, kind, index, _ in events if kind is mark)
    for one in jobs:
        assert one.arrived_s < one.first_token_s <= one.finished_s < math.inf
        assert 0 <= one.cached_tokens < one.prompt_tokens
    assert (0, 0, 0) == (engine.held_tokens, engine.waiting, engine.running)
    assert engine.prefill_s == pytest.approx(sum(one.prefill_s for one in jobs))


@given(drawn=arrivals, looks_s=st.lists(st.floats(0, 60), max_size=20))
@settings(max_examples=150)
def test_looking_at_an_engine_changes_nothing(drawn: list[Any], looks_s: list[float]) -> None:
    """Time may be advanced in whatever steps."""
    _, undisturbed = _play(_jobs(drawn), looks_s=[])
    _, watched = _play(_jobs(drawn), looks_s=looks_s)
    assert [event[1:3] for event in undisturbed] == [event[1:3] for event in watched]
    assert [event[0] for event in undisturbed] == pytest.approx([event[0] for event in watched])
