from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import (
    ClientGone,
    HeadraceError,
    InvalidRequest,
    UpstreamContextExceeded,
    UpstreamError,
    UpstreamFailed,
    UpstreamOutOfFunds,
    UpstreamRateLimited,
    UpstreamRefused,
    UpstreamUnauthorised,
)
from gateway.fleet.flight import Flight


def test_the_failure_rate_fades_with_time(scene: Any) -> None:
    """A backend that nobody tries for fear of it becomes worth a try again."""
    scene.fail(UpstreamFailed("x"))
    rate = scene.look()["a"].failure_rate
    assert rate > 0
    assert 0 == scene.look()["b"].failure_rate
    scene.clock.now += 300
    assert scene.look()["a"].failure_rate < rate / 900


def test_retry_after_is_obeyed_to_the_second(scene: Any) -> None:
    """A backend that names a time rests for that time, at its first failure already."""
    scene.fail(UpstreamRateLimited("slow down", retry_after_s=20.0))
    assert ("cooling after upstream_rate_limited", 20.0) == (scene.look()["a"].down, scene.look()["a"].retry_in_s)
    assert scene.look()["b"].down is None
    scene.clock.now += 19.5
    assert 0.5 == scene.look()["a"].retry_in_s
    scene.clock.now += 0.5
    assert (None, None) == (scene.look()["a"].down, scene.look()["a"].retry_in_s)


@pytest.mark.parametrize(
    ("error", "rest_s"),
    [
        (UpstreamRateLimited("x"), 5.0),
        (UpstreamUnauthorised("x"), 60.0),
        (UpstreamOutOfFunds("x"), 900.0),
        (UpstreamFailed("x"), None),
    ],
)
def test_some_errors_ask_for_rest_at_once(scene: Any, error: UpstreamError, rest_s: float | None) -> None:
    """A refused key and a limit without a time will not be well in a moment; one 500 may."""
    scene.fail(error)
    assert rest_s == scene.look()["a"].retry_in_s


def test_failures_in_a_row_cool_for_longer_and_longer(scene: Any) -> None:
    """Two are tolerated; then one second, doubled each time, a minute at most; a success ends the row."""
    rests: list[float | None] = []
    for _ in range(11):
        scene.fail(UpstreamFailed("x"))
        rests.append(scene.look()["a"].retry_in_s)
        scene.clock.now += 100
    assert [None, None, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0] == rests
    scene.fail(None)
    scene.fail(UpstreamFailed("x"))
    assert scene.look()["a"].retry_in_s is None


@pytest.mark.parametrize(
    "error",
    [ClientGone("x"), InvalidRequest("x"), UpstreamRefused("x", http_status=422), HeadraceError("a bug of ours")],
)
def test_clients_and_our_own_bugs_never_count_against_a_backend(scene: Any, error: HeadraceError) -> None:
    """Twenty hang-ups, bad requests or bugs leave it as well as it was."""
    for _ in range(20):
        scene.fail(error)
    assert (None, 0.0) == (scene.look()["a"].down, scene.look()["a"].failure_rate)


def test_a_client_error_in_between_does_not_end_a_row_of_failures(scene: Any) -> None:
    """It says nothing, neither bad nor good."""
    for error in (UpstreamFailed("x"), UpstreamFailed("x"), UpstreamRefused("x"), UpstreamFailed("x")):
        scene.fail(error)
    assert 1.0 == scene.look()["a"].retry_in_s


def test_one_incident_is_one_failure_however_many_it_hits(scene: Any) -> None:
    """Eight streams that break together, some a little later, leave the backend as one failure does: usable."""
    flights = [scene.fly("a") for _ in range(8)]
    for flight in flights:
        scene.clock.now += 0.1
        flight.landed(usage=None, decode_s=None, error=UpstreamFailed("x"), now_s=scene.clock.now_s())
    assert scene.look()["a"].down is None
    scene.fail(UpstreamFailed("x"))
    assert scene.look()["a"].down is None
    scene.fail(UpstreamFailed("x"))
    assert 1.0 == scene.look()["a"].retry_in_s


def test_late_failures_of_one_incident_make_no_rest_longer(scene: Any) -> None:
    """What was sent off before the backend began to rest ends when it ends."""
    stragglers = [scene.fly("a") for _ in range(5)]
    scene.clock.now += 1
    for _ in range(3):
        scene.fail(UpstreamFailed("x"))
    scene.clock.now += 0.75
    for flight in stragglers:
        flight.landed(usage=None, decode_s=None, error=UpstreamFailed("x"), now_s=scene.clock.now_s())
    assert 0.25 == scene.look()["a"].retry_in_s


def test_no_failure_makes_a_rest_shorter(scene: Any) -> None:
    """A backend that asked for twenty seconds has them, whatever else goes wrong there meanwhile."""
    straggler = scene.fly("a")
    scene.fail(UpstreamRateLimited("slow down", retry_after_s=20.0))
    straggler.landed(usage=None, decode_s=None, error=UpstreamRateLimited("x"), now_s=scene.clock.now_s())
    assert 20.0 == scene.look()["a"].retry_in_s


def test_a_backend_that_was_away_comes_back_with_a_clean_record(scene: Any) -> None:
    """It is another process: neither the rest nor the row of the old one is its own, nor what fails of that yet."""
    straggler = scene.fly("a")
    scene.clock.now += 1
    for _ in range(9):
        scene.fail(UpstreamFailed("x"))
    assert 60.0 == scene.look()["a"].retry_in_s
    backend = scene.world.backends["a"]
    up = backend.facts()
    vars(backend)["_facts"] = replace(up, down="starting")
    assert "starting" == scene.look()["a"].down
    scene.clock.now += 1
    vars(backend)["_facts"] = up
    assert scene.look()["a"].down is None
    straggler.landed(usage=None, decode_s=None, error=UpstreamFailed("x"), now_s=scene.clock.now_s())
    for _ in range(2):
        scene.fail(UpstreamFailed("x"))
    assert scene.look()["a"].down is None


def test_a_backend_rests_when_all_of_its_models_do(make_scene: Callable[..., Any], clock: Any) -> None:
    """One model that works is enough for it to be of use."""
    scene = make_scene(
        clock,
        """
        backends: {a: {use: fake, models: [small, large]}}
        routes: {r: {models: ["*"], targets: [a/small, a/large]}}
        """,
    )
    facts = scene.world.backends["a"].facts()
    rests = [scene.fleet.cooling("a", facts)]
    for candidate in scene.fleet.snapshot(scene.world.routes[0], scene.ctx, scene.world.backends):
        flight = Flight(scene.fleet, scene.ctx, candidate, facts)
        flight.landed(usage=None, decode_s=None, error=UpstreamUnauthorised("x"), now_s=clock.now_s())
        rests.append(scene.fleet.cooling("a", facts))
    assert [None, None, "cooling after upstream_unauthorised"] == rests


def test_a_key_that_was_refused_is_no_failure_of_a_backend_that_has_another(scene: Any) -> None:
    """It neither rests nor gets a worse record."""
    error = UpstreamUnauthorised("x")
    error.another_key = True
    scene.fail(error)
    assert (None, 0.0) == (scene.look()["a"].down, scene.look()["a"].failure_rate)


def test_what_did_not_fit_is_remembered_until_as_much_did(scene: Any) -> None:
    """The least that was too long for a window is known from then on; what is served at that length takes it back."""
    assert scene.look()["a"].too_long_tokens is None
    scene.fail(UpstreamContextExceeded("x"))
    found = scene.look()["a"]
    assert (5001, None, 0.0) == (found.too_long_tokens, found.down, found.failure_rate)
    assert scene.look()["b"].too_long_tokens is None
    scene.fail(None)
    assert scene.look()["a"].too_long_tokens is None
