"""What replicas of the gateway learn from each other: the same load, the same caches, and nothing of the dead."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.msgpack import Decoder, encode

from gateway.errors import ClientGone, UpstreamFailed
from gateway.fleet.events import LEASE_S, Alive, Dispatched, FirstToken, FleetEvent, Landed, Left
from gateway.price import Usage


def _told(scene: Any, name: str) -> list[FleetEvent]:
    events: list[FleetEvent] = []
    scene.fleet.replica, scene.fleet.tell = name, events.append
    return events


@pytest.fixture
def ours_and_theirs(make_scene: Callable[..., Any], clock: Any) -> tuple[Any, Any]:
    """Two replicas over the same backends."""
    return make_scene(clock), make_scene(clock)


def _load(scene: Any) -> list[tuple[int, int, int]]:
    found = scene.look().values()
    return [(one.in_flight, one.queued_prefill_tokens, one.running_output_tokens) for one in found]


def test_a_replica_that_hears_everything_sees_what_the_other_sees(ours_and_theirs: tuple[Any, Any], clock: Any) -> None:
    """After every step of an attempt: load, waiting time, warm prefix and speeds."""
    ours, theirs = ours_and_theirs
    events = _told(theirs, "them")
    flight = theirs.fly("a")
    steps = [
        lambda: None,  # it was dispatched
        lambda: flight.first_token(clock.now),
        lambda: flight.landed(
            usage=Usage(prompt_tokens=5000, output_tokens=101), decode_s=1.0, error=None, now_s=clock.now
        ),
    ]
    for step in steps:
        step()
        for event in events:
            ours.fleet.hear(event)
        events.clear()
        for one, other in zip(theirs.look().values(), ours.look().values(), strict=True):
            assert (one.in_flight, one.queued_prefill_tokens, one.warm_tokens) == (
                other.in_flight,
                other.queued_prefill_tokens,
                other.warm_tokens,
            )
            assert pytest.approx((one.wait_s, one.prefill_tokens_per_s, one.seconds_per_token)) == (
                other.wait_s,
                other.prefill_tokens_per_s,
                other.seconds_per_token,
            )
        clock.now += 1.0
    assert 4999 == ours.look()["a"].warm_tokens
    assert 0 == ours.fleet.in_flight["a"]


def test_events_survive_the_way(ours_and_theirs: tuple[Any, Any]) -> None:
    """As the bytes in which replicas tell each other of them."""
    _, theirs = ours_and_theirs
    events = _told(theirs, "them")
    theirs.fail(UpstreamFailed("x"))
    theirs.fly("b").first_token(2000.0)
    events += [Alive("them"), Left("them")]
    assert [Dispatched, Landed, Dispatched, FirstToken, Alive, Left] == [type(event) for event in events]
    assert events == Decoder(list[FleetEvent]).decode(encode(events))


def test_what_is_told_twice_or_of_nothing_known_changes_nothing(ours_and_theirs: tuple[Any, Any]) -> None:
    """A carrier may repeat; a replica that joins has not heard the beginning."""
    ours, theirs = ours_and_theirs
    events = _told(theirs, "them")
    flight = theirs.fly("a")
    flight.landed(usage=None, decode_s=None, error=None, now_s=1001.0)
    for event in [*events, *events, FirstToken("them", 99), Landed("them", 99), Left("nobody")]:
        ours.fleet.hear(event)
    assert [(0, 0, 0), (0, 0, 0)] == _load(ours)


def test_a_replica_that_joins_is_told_what_it_has_missed(ours_and_theirs: tuple[Any, Any], clock: Any) -> None:
    """The attempts in flight, with their age and whether they were read."""
    ours, theirs = ours_and_theirs
    _told(theirs, "them")
    theirs.fly("a")
    theirs.fly("b").first_token(clock.now)
    theirs.fly("b").landed(usage=None, decode_s=None, error=None, now_s=clock.now)
    clock.now += 2.0
    for event in theirs.fleet.under_way():
        ours.fleet.hear(event)
    assert _load(theirs) == _load(ours) == [(1, 5000, 100), (1, 0, 100)]
    assert pytest.approx(theirs.look()["a"].wait_s) == ours.look()["a"].wait_s


@pytest.mark.parametrize("how", ["silent", "left"])
def test_what_a_dead_replica_had_in_flight_vanishes(ours_and_theirs: tuple[Any, Any], clock: Any, how: str) -> None:
    """With its lease, or when it says so; what it had warmed stays warm."""
    ours, theirs = ours_and_theirs
    events = _told(theirs, "them")
    theirs.fly("a")
    theirs.fly("b").first_token(clock.now)
    for event in events:
        ours.fleet.hear(event)
    clock.now += LEASE_S - 1
    ours.fleet.hear(Alive("them"))
    clock.now += LEASE_S - 1
    assert [(1, 0, 100), (1, 0, 100)] == _load(ours)  # by now the whole answer's prompt is taken as read, too
    if how == "left":
        ours.fleet.hear(Left("them"))
    else:
        clock.now += 1
    assert [(0, 0, 0), (0, 0, 0)] == _load(ours)
    assert 4999 == ours.look()["b"].warm_tokens


def test_failures_elsewhere_count_here(ours_and_theirs: tuple[Any, Any]) -> None:
    """What the client did does not."""
    ours, theirs = ours_and_theirs
    events = _told(theirs, "them")
    theirs.fail(ClientGone("x"))
    theirs.fail(UpstreamFailed("x"), "b")
    for event in events:
        ours.fleet.hear(event)
    found = ours.look()
    assert (0.0, theirs.look()["b"].failure_rate) == (found["a"].failure_rate, found["b"].failure_rate)
    assert found["b"].failure_rate > 0
    assert 0 == found["a"].warm_tokens


def test_a_backend_that_is_not_in_the_policy_here_is_not_heard_of(ours_and_theirs: tuple[Any, Any]) -> None:
    """During a roll-out the other's policy file may be another one, and ours may have lost a backend."""
    ours, theirs = ours_and_theirs
    events = _told(theirs, "them")
    theirs.fly("a").first_token(2000.0)
    theirs.fly("b").first_token(2000.0)
    ours.look()
    ours.fleet.serves(["b"])
    for event in events:
        ours.fleet.hear(event)
    assert [("b", "small")] == list(ours.fleet._standings)
    assert (0, 1) == (ours.fleet._peers.in_flight["a"], ours.fleet._peers.in_flight["b"])


def _step(data: st.DataObject, step: str, owner: Any, flying: list[Any]) -> None:
    if step == "fly":
        flying.append(owner.fly(data.draw(st.sampled_from("ab"))))
    elif flying and step == "first":
        data.draw(st.sampled_from(flying)).first_token(data.draw(st.floats(0, 5000)))
    elif flying:
        flight = flying.pop(data.draw(st.integers(0, len(flying) - 1)))
        flight.landed(usage=None, decode_s=None, error=None, now_s=5000.0)


@given(data=st.data())
def test_load_is_conserved_over_replicas_however_events_interleave(
    make_scene: Callable[..., Any], data: st.DataObject
) -> None:
    """Three replicas that lose, repeat and reorder events between flights, join and die: nothing is left over."""
    from gateway.clock import SystemClock

    scene = make_scene(SystemClock())
    others = {name: make_scene(SystemClock()) for name in ("x", "y")}
    told = {name: _told(other, name) for name, other in others.items()}
    flying: list[Any] = []
    for step in data.draw(st.lists(st.sampled_from(["fly", "first", "land", "hear", "again", "die"]), max_size=30)):
        name = data.draw(st.sampled_from(["", "x", "y"]))
        if step in {"fly", "first", "land"}:
            _step(data, step, others.get(name, scene), flying)
        elif name and step == "die":
            scene.fleet.hear(Left(name))
        elif name:
            for event in data.draw(st.permutations(told[name])) if step == "hear" else told[name]:
                scene.fleet.hear(event)
        for candidate in scene.look().values():
            assert min(candidate.in_flight, candidate.queued_prefill_tokens, candidate.running_output_tokens) >= 0
    for flight in flying:
        flight.landed(usage=None, decode_s=None, error=None, now_s=5000.0)
    for name in others:
        scene.fleet.hear(Left(name))
    assert [(0, 0, 0), (0, 0, 0)] == _load(scene)
