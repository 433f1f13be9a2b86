"""Backends that do not get on as the others do are left alone: simulated fleets, with stated rates of false alarm."""

import random
from typing import Any

import pytest

from gateway.errors import UpstreamTimeout
from gateway.fleet.progress import Expectations, Progress

FALSE_ALARMS_PER_TOKEN = 1 / 20_000
"""Of a healthy fleet's first tokens no more than so many take a backend out."""


def _policy(backends: int) -> str:
    names = [f"b{number}" for number in range(backends)]
    listed = ", ".join(f"{name}: {{use: fake, models: [small]}}" for name in names)
    targets = ", ".join(f"{name}/small" for name in names)
    return f"""
        backends: {{{listed}}}
        routes: {{r: {{models: ["*"], targets: [{targets}]}}}}
    """


def _noise(chance: random.Random, kind: str) -> float:
    """How many times as long as expected: a bell curve of factors, one with hiccups, one with a long tail."""
    if kind == "hiccups" and chance.random() < 0.03:
        return 10.0
    if kind == "long tail":
        return chance.paretovariate(1.5) * 0.7
    return chance.lognormvariate(0.0, 0.5)


@pytest.mark.parametrize("kind", ["bell", "hiccups", "long tail"])
def test_noise_takes_hardly_anybody_out(kind: str) -> None:
    """Five backends, 100,000 first tokens, each as late by chance as all others: five false alarms at most."""
    chance = random.Random(20261130)  # noqa: S311  # chance, not secrecy
    common = Expectations()
    fleet = [Progress(common) for _ in range(5)]
    now_s, alarms = 1000.0, 0
    for number in range(100_000):
        progress, expected_s = fleet[number % 5], chance.uniform(0.2, 5.0)
        now_s += 100.0  # one after the other: each may count
        was_out = bool(progress.reason)
        progress.first_token(expected_s=expected_s, actual_s=expected_s * _noise(chance, kind), now_s=now_s)
        alarms += bool(progress.reason) and not was_out
    assert alarms <= 100_000 * FALSE_ALARMS_PER_TOKEN


@pytest.mark.parametrize(("times", "within"), [(10.0, 6), (5.0, 10)])
def test_a_backend_that_slows_down_is_found_soon(times: float, within: int) -> None:
    """The slower, the sooner, however the fleet's first tokens scatter; in nine runs of ten within so many."""
    taken = []
    for run in range(50):
        chance = random.Random(run)  # noqa: S311  # likewise
        common = Expectations()
        slow, *healthy = fleet = [Progress(common) for _ in range(4)]
        slowness, seen = 1.0, 0
        for turn in range(300):
            slowness = times if turn >= 100 else 1.0
            for progress in fleet:
                late = chance.lognormvariate(0.0, 0.5) * (slowness if progress is slow else 1.0)
                progress.first_token(expected_s=1.0, actual_s=late, now_s=1000.0 + 100 * turn)
            seen += turn >= 100
            if slow.reason:
                break
        assert [""] * 3 == [progress.reason for progress in healthy]
        taken.append(seen)
    assert sorted(taken)[44] <= within


def test_what_waits_side_by_side_is_late_of_one_cause() -> None:
    """A hundred requests that were under way in one long pause are one surprise; a hundred later ones are more."""
    common = Expectations()
    progress, other = Progress(common), Progress(common)
    for number in range(100):
        other.first_token(expected_s=1.0, actual_s=1.0, now_s=1000.0 + 10 * number)
    for number in range(100):
        progress.first_token(expected_s=1.0, actual_s=60.0, now_s=3000.0 + number / 100)
    assert "" == progress.reason
    assert progress.suspicion < 3


class _Fleet:
    """A scene whose backends answer as late as the test says, a request at a time."""

    def __init__(self, make_scene: Any, clock: Any, backends: int) -> None:
        self.scene = make_scene(clock, _policy(backends))
        self.clock = clock
        self.times = {f"b{number}": 1.0 for number in range(backends)}

    def answer(self, backend: str) -> None:
        """One stream, from its dispatch to its end."""
        flight = self.scene.fly(backend)
        leg = flight._leg
        self.clock.now += (leg.wait_s + leg.read_s) * self.times[backend]
        flight.first_token(self.clock.now)
        flight.landed(usage=None, decode_s=None, error=None, now_s=self.clock.now)

    def rounds(self, count: int) -> None:
        """As many for each backend that is not left alone."""
        for _ in range(count):
            for backend in self.times:
                if self.scene.look()[backend].down is None:
                    self.answer(backend)

    def out(self) -> list[str]:
        """Who is left alone now."""
        return [name for name, candidate in self.scene.look().items() if candidate.down is not None]


@pytest.fixture
def fleet_of(make_scene: Any, clock: Any, make_context: Any, make_request: Any) -> Any:
    """Makes a fleet of so many backends whose speeds are known."""

    def make(backends: int) -> _Fleet:
        fleet = _Fleet(make_scene, clock, backends)
        fleet.scene.ctx = make_context(make_request("hi", stream=True), prompt_tokens=5000)
        fleet.rounds(40)
        return fleet

    return make


def test_one_that_is_slow_is_left_alone_and_comes_back_by_a_trial(fleet_of: Any) -> None:
    """It rests, then one request at a time finds out; once it is well again, it takes part as before."""
    fleet = fleet_of(3)
    fleet.times["b1"] = 12.0
    for _ in range(4):
        fleet.answer("b1")
    assert ["b1"] == fleet.out()
    slow = fleet.scene.look()["b1"]
    assert slow.down.startswith("left alone: first tokens come ")
    assert 0 < slow.retry_in_s <= 5
    fleet.clock.now += 5
    assert [] == fleet.out()
    trial = fleet.scene.fly("b1")
    assert fleet.scene.look()["b1"].down.startswith("being tried: ")
    fleet.clock.now += 200
    trial.first_token(fleet.clock.now)
    trial.landed(usage=None, decode_s=None, error=None, now_s=fleet.clock.now)
    assert 5 < fleet.scene.look()["b1"].retry_in_s <= 10
    fleet.clock.now += 10
    fleet.times["b1"] = 1.0
    fleet.answer("b1")
    assert [] == fleet.out()
    assert "" == fleet.scene.standing("b1").progress.reason


@pytest.mark.parametrize(("backends", "most"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (8, 3)])
def test_never_more_than_a_minority_is_left_alone(fleet_of: Any, backends: int, most: int) -> None:
    """Where most are slow, something else is: fewer than half of a route's backends are taken out, and never all."""
    fleet = fleet_of(backends)
    for name in fleet.times:
        fleet.times[name] = 30.0
    for _ in range(10):
        fleet.rounds(1)
        assert len(fleet.out()) <= most
    for name in fleet.times:
        fleet.scene.standing(name).progress._rest(fleet.clock.now)
    assert most == len(fleet.out())


def test_one_that_accepts_and_says_nothing_is_left_alone_before_its_first_time_out(fleet_of: Any) -> None:
    """Several wait, and none of their first tokens comes; the first sign of life ends it."""
    fleet = fleet_of(3)
    flights = [fleet.scene.fly("b2") for _ in range(3)]
    assert [] == fleet.out()
    fleet.clock.now += 300
    assert ["b2"] == fleet.out()
    assert "3 requests wait, and no first token has come for 300 s" == fleet.scene.look()["b2"].down
    flights[0].first_token(fleet.clock.now)
    assert [] == fleet.out()


def test_streams_that_stall_count_too(fleet_of: Any) -> None:
    """First tokens that come in time do not make up for answers that stop in their middle."""
    fleet = fleet_of(3)
    for _ in range(4):
        flight = fleet.scene.fly("b0")
        fleet.clock.now += 100
        error = UpstreamTimeout("fell silent")
        flight.landed(usage=None, decode_s=None, error=error, now_s=fleet.clock.now)
        fleet.scene.fleet.cooldowns.begin_anew("b0", "small")
        fleet.scene.standing("b0").failures_in_a_row = 0
    assert ["b0"] == fleet.out()
    assert "left alone: answers stall" == fleet.scene.look()["b0"].down


def test_a_backend_that_is_another_one_begins_anew(fleet_of: Any) -> None:
    """What the old one did is forgotten."""
    fleet = fleet_of(3)
    fleet.times["b1"] = 12.0
    fleet.rounds(6)
    fleet.scene.fleet._begin_anew("b1")
    assert [] == fleet.out()
