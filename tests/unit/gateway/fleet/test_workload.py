"""What waits and what is written at one backend."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.workload import Leg, Workload


def _leg(*, fresh: int = 1000, prompt: int = 1000, output: int = 100, streams: bool = True) -> Leg:
    return Leg(prompt_tokens=prompt, fresh_tokens=fresh, output_tokens=output, streams=streams)


def _counters(work: Workload) -> tuple[int, ...]:
    return work.in_flight, work.queued_prefill_tokens, work.running_output_tokens, work.kv_tokens, work.writing


def test_prompts_wait_for_each_other_in_seconds() -> None:
    """Two of two seconds each make four; what has gone by since the first began is taken off."""
    work = Workload()
    work.dispatched(_leg(), 10.0, read_s=2.0)
    work.dispatched(_leg(), 10.5, read_s=2.0)
    assert [3.5, 3.0, 2.0] == [work.queued_s(now_s) for now_s in (10.5, 11.0, 12.0)]


def test_a_prompt_that_takes_longer_than_thought_does_not_use_up_the_time_of_the_next() -> None:
    """At most its own share is taken off, until it is read."""
    work = Workload()
    first = _leg()
    work.dispatched(first, 0.0, read_s=2.0)
    work.dispatched(_leg(), 0.0, read_s=3.0)
    assert 3.0 == work.queued_s(60.0)
    work.first_token(first, 60.0)
    assert [3.0, 2.0] == [work.queued_s(60.0), work.queued_s(61.0)]


def test_a_whole_answers_prompt_is_taken_as_read_when_its_time_has_come() -> None:
    """Its first token is never seen, and must not be waited for."""
    work = Workload()
    work.dispatched(_leg(streams=False), 0.0, read_s=2.0)
    work.dispatched(_leg(), 0.0, read_s=3.0)
    assert [4.0, 3.0, 2.0] == [work.queued_s(now_s) for now_s in (1.0, 2.0, 3.0)]
    assert (1, 1000) == (work.writing, work.queued_prefill_tokens)


def test_reading_is_learned_from_when_it_could_begin() -> None:
    """Not from the dispatch: the second of two waited for the first."""
    work = Workload()
    for start_s in range(0, 400, 2):
        one, two = _leg(), _leg()
        work.dispatched(one, float(start_s), read_s=0.5)
        work.dispatched(two, float(start_s), read_s=0.5)
        work.first_token(one, start_s + 0.5)
        work.first_token(two, start_s + 1.0)
        work.landed(one, start_s + 1.0)
        work.landed(two, start_s + 1.0)
    assert pytest.approx(2000, rel=0.1) == 1 / work.prefill.slowness_s


@pytest.mark.parametrize("fresh", [0, 255])
def test_short_prompts_teach_nothing_about_reading(fresh: int) -> None:
    """There the round trip decides."""
    work, leg = Workload(), _leg(fresh=fresh)
    before = work.prefill.slowness_s
    work.dispatched(leg, 0.0, read_s=0.1)
    work.first_token(leg, 9.0)
    assert before == work.prefill.slowness_s


@pytest.mark.parametrize(("tokens", "seconds"), [(7, 9.0), (100, 0.0), (1, 1.0), (0, 1.0)])
def test_short_answers_and_no_time_teach_nothing_about_writing(tokens: int, seconds: float) -> None:
    """A handful of tokens in one packet is no measurement."""
    work, leg = Workload(), _leg()
    before = work.decoding.seconds_per_token(1, 0)
    work.dispatched(leg, 0.0, read_s=0.1)
    work.first_token(leg, 0.1)
    work.landed(leg, 1.0)
    work.wrote(leg, tokens, seconds)
    assert before == work.decoding.seconds_per_token(1, 0)


def test_the_time_in_which_prompts_are_read_is_no_time_of_writing() -> None:
    """An answer of 100 tokens took 10 s, half of which the backend read another prompt: a step takes 0.05 s."""
    work, now_s = Workload(), 0.0
    for _ in range(300):
        answer, other = _leg(fresh=300, prompt=300), _leg(prompt=0)
        work.dispatched(answer, now_s, read_s=0.0)
        work.first_token(answer, now_s)
        work.dispatched(other, now_s + 2.0, read_s=5.0)
        work.first_token(other, now_s + 7.0)
        work.landed(other, now_s + 7.0)
        now_s += 10.0
        work.landed(answer, now_s)
        work.wrote(answer, 101, 10.0)
    assert pytest.approx(0.05, rel=0.1) == work.decoding.seconds_per_token(1, 300)


@given(data=st.data())
def test_counters_return_to_zero_in_whatever_order_things_happen(data: st.DataObject) -> None:
    """Also with a clock that jumps, and never below zero on the way."""
    work, legs = Workload(), []
    for _ in range(data.draw(st.integers(0, 30))):
        now_s = data.draw(st.floats(-1e4, 1e4))
        step = data.draw(st.sampled_from(["dispatch", "first", "land", "look"]))
        if step == "dispatch":
            legs.append(_leg(fresh=data.draw(st.integers(0, 5000)), streams=data.draw(st.booleans())))
            work.dispatched(legs[-1], now_s, read_s=data.draw(st.floats(0, 100)))
        elif step == "look" or not legs:
            assert work.queued_s(now_s) >= 0
        elif step == "first":
            work.first_token(data.draw(st.sampled_from(legs)), now_s)
        else:
            work.landed(legs.pop(data.draw(st.integers(0, len(legs) - 1))), now_s)
        counters = (
            work.in_flight,
            work.queued_prefill_tokens,
            work.running_output_tokens,
            work.kv_tokens,
            work.writing,
        )
        assert min(counters) >= 0
    for leg in legs:
        work.landed(leg, 0.0)
    assert (0, 0, 0, 0, 0) == _counters(work)
    assert 0.0 == work.queued_s(0.0)


@pytest.mark.parametrize(
    ("in_flight", "seconds"),
    [
        (4, 0.5),  # one of four must end: 100 tokens x 0.02 s, and the first of four ends in a quarter of that
        (6, 1.5),  # three must end before this one begins
    ],
)
def test_where_all_places_are_taken_a_share_of_what_is_written_is_waited_for(in_flight: int, seconds: float) -> None:
    """Each writes its share of what is expected, and as many write at once as there are places."""
    work = Workload()
    for _ in range(in_flight):
        work.dispatched(_leg(output=100), 0.0, read_s=0.0)
    assert pytest.approx(seconds) == work.slot_s(in_flight, 4, 0.02)
