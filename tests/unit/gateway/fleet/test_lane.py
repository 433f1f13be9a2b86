"""A target, and the candidate that it makes."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.facts import BackendFacts, ModelFacts, PromptCache
from gateway.fleet.cooling import Cooling
from gateway.fleet.lane import Lane, Look
from gateway.fleet.prefix import PrefixIndex
from gateway.fleet.standing import Standing
from gateway.fleet.workload import Leg
from gateway.rules.route import Target
from gateway.stores.memory import MemoryShared
from gateway.types import Candidate, Operation

FACTS = BackendFacts(models={"m": ModelFacts(context_tokens=4096)}, operations=frozenset(Operation))


@pytest.fixture
def standing() -> Standing:
    """A backend that has seen nothing yet."""
    return Standing(model="m", cache=PrefixIndex().open())


def _lane(standing: Standing, facts: BackendFacts = FACTS, *, drain: bool = False) -> Lane:
    return Lane(Target(backend="b", model="m", drain=drain), "m", facts, standing)


def _seen(lane: Lane, clock: Any, *, warm: int = 0, in_flight: int = 0) -> Candidate:
    cooling = Cooling(MemoryShared(clock))
    look = Look(10_000, clock.now_s(), 0.5, cooling)
    return lane.candidate(look, warm_tokens=warm, warmest_tokens=0, in_flight=in_flight)


def _send(standing: Standing, clock: Any, *, read_s: float = 2.0) -> Leg:
    leg = Leg(prompt_tokens=1000, fresh_tokens=800, output_tokens=100, streams=True)
    standing.work.dispatched(leg, clock.now_s(), read_s=read_s)
    return leg


def test_an_idle_backend_is_described_by_its_facts_and_first_guesses(standing: Standing, clock: Any) -> None:
    """At 1,000 tokens a second, and slower behind 5,000 others, 10,000 take eleven seconds; half a one has gone by."""
    idle = _seen(_lane(standing), clock)
    assert ("b", "m", 4096, 0.0, None) == (idle.backend, idle.model, idle.context_tokens, idle.wait_s, idle.down)
    assert pytest.approx(1000 / 1.1) == idle.prefill_tokens_per_s
    assert pytest.approx(11.5) == idle.first_token_p50_s
    assert pytest.approx(22.5) == idle.first_token_p90_s


def test_a_model_that_is_not_loaded_has_to_be_first(standing: Standing, clock: Any) -> None:
    """Where nothing is under way: it is loaded for who came before, else."""
    cold = replace(FACTS, models={"m": ModelFacts(load_s=6.0)})
    idle = _seen(_lane(standing, cold), clock)
    assert (6.0, True) == (idle.wait_s, idle.first_token_p50_s > _seen(_lane(standing), clock).first_token_p50_s)
    _send(standing, clock)
    assert _seen(_lane(standing), clock).wait_s == _seen(_lane(standing, cold), clock).wait_s


def test_what_is_under_way_is_counted(standing: Standing, clock: Any) -> None:
    """Two wait, then one is written while the other waits."""
    first, _ = _send(standing, clock), _send(standing, clock)
    waiting = _seen(_lane(standing), clock)
    assert (2, 1600, 200, 2000, 4.0) == (
        waiting.waiting,
        waiting.queued_prefill_tokens,
        waiting.running_output_tokens,
        waiting.held_tokens,
        waiting.wait_s,
    )
    standing.work.first_token(first, clock.now_s())
    assert (1, 800) == (_seen(_lane(standing), clock).waiting, _seen(_lane(standing), clock).queued_prefill_tokens)
    assert waiting.seconds_per_token > _seen(_lane(Standing(model="m", cache=standing.cache)), clock).seconds_per_token


def test_where_all_places_are_taken_one_must_become_free(standing: Standing, clock: Any) -> None:
    """In time of writing, on top of what waits to be read."""
    for _ in range(4):
        _send(standing, clock, read_s=0.0)
    lane = _lane(standing, replace(FACTS, concurrency=4))
    assert 0.0 == _seen(lane, clock, in_flight=3).wait_s
    full = _seen(lane, clock, in_flight=4)
    assert pytest.approx(100 * full.seconds_per_token / 4) == full.wait_s


@pytest.mark.parametrize(
    ("rules", "warm"),
    [
        (None, 1500),
        (PromptCache(min_tokens=1024), 1500),
        (PromptCache(min_tokens=1024, step_tokens=128), 1408),
        (PromptCache(min_tokens=2048), 0),
    ],
)
def test_a_providers_rules_say_how_much_of_a_warm_prefix_is_hit(
    standing: Standing, rules: PromptCache | None, warm: int
) -> None:
    """From its minimum on, in its steps."""
    lane = _lane(standing, replace(FACTS, prompt_cache=rules))
    assert warm == lane.warm_tokens(3, (2000, 4000, 6000), 12_000, 3000)


def test_the_last_token_is_never_warm_and_without_a_cache_nothing_is(standing: Standing) -> None:
    """It makes the first token of the answer."""
    assert 2999 == _lane(standing).warm_tokens(1, (12_000,), 12_000, 3000)
    assert 0 == _lane(standing).warm_tokens(0, (), 0, 0)
    assert 0 == _lane(standing, replace(FACTS, keeps_prefixes=False)).warm_tokens(1, (12_000,), 12_000, 3000)


def test_who_drains_or_is_down_says_so(standing: Standing, clock: Any) -> None:
    """Its own word goes first."""
    assert "draining" == _seen(_lane(standing, drain=True), clock).down
    down = _seen(_lane(standing, replace(FACTS, down="starting", back_in_s=2.0), drain=True), clock)
    assert ("starting", 2.0) == (down.down, down.retry_in_s)
