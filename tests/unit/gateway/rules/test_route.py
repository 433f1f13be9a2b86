import fnmatch
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.rules.route import Hedge, Target
from gateway.rules.world import World
from gateway.worth import Deadline


def _answers(make_world: Callable[..., World], pattern: str, model: str) -> bool:
    world = make_world(f"backends: {{a: {{use: fake}}}}\nroutes: {{r: {{models: ['{pattern}'], targets: [a]}}}}")
    return world.routes[0].answers(model)


@pytest.mark.parametrize(
    ("pattern", "model", "answered"),
    [
        ("gpt-4o", "gpt-4o", True),
        ("gpt-4o", "gpt-4o-mini", False),
        ("gpt-4o", "GPT-4O", False),
        ("gpt-*", "gpt-", True),
        ("gpt-*", "my-gpt-4", False),
        ("*", "", True),
        ("*", "line\nbreak", True),
        ("*/llama-*-70b", "meta/llama-3.3-70b", True),
        ("*/llama-*-70b", "meta/llama-3.3-8b", False),
        ("v1.5", "v1x5", False),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
        ("a?c", "abc", False),
    ],
)
def test_a_star_is_any_text_and_all_else_is_itself(
    make_world: Callable[..., World], pattern: str, model: str, answered: bool
) -> None:
    """Patterns have one special character, so that names with dots and brackets mean what they say."""
    assert answered is _answers(make_world, pattern, model)


@given(
    pattern=st.text("ab*", min_size=1, max_size=8),
    model=st.text("ab", max_size=10),
)
def test_the_pattern_agrees_with_the_shells_idea_of_it(
    make_world: Callable[..., World], pattern: str, model: str
) -> None:
    """Without brackets and question marks our patterns are those that everybody knows."""
    assert fnmatch.fnmatchcase(model, pattern) is _answers(make_world, pattern, model)


def test_many_stars_end_in_time(make_world: Callable[..., World]) -> None:
    """A client chooses the model's name, and must not choose how long matching takes: trying all ways takes years."""
    assert not _answers(make_world, "*a" * 12 + "*b", "a" * 250)


def _world(make_world: Callable[..., World], route: str) -> World:
    return make_world(f"backends: {{a: {{use: fake, models: [m]}}}}\nroutes: {{r: {{models: [x], {route}}}}}")


@pytest.mark.parametrize(
    ("target", "drains"),
    [("{to: a/m}", False), ("{to: a/m, drain: true}", True), ("{to: a/m, weight: 0}", True), ("a/m", False)],
)
def test_a_target_may_say_that_it_drains(make_world: Callable[..., World], target: str, drains: bool) -> None:
    """Outright, or by a weight of nothing."""
    world = _world(make_world, f"targets: [{target}]")
    assert (Target(backend="a", model="m", drain=drains),) == world.routes[0].targets


def test_a_route_hedges_where_it_says_so(make_world: Callable[..., World]) -> None:
    """Off by default; with shares that are small unless told otherwise."""
    assert _world(make_world, "targets: [a]").routes[0].hedge is None
    hedged = _world(make_world, "targets: [a], hedge: {quantile: 0.9}").routes[0].hedge
    assert Hedge(quantile=0.9, most_requests=0.05, most_spend=0.05) == hedged


@pytest.mark.parametrize(
    ("route", "client_s", "expected"),
    [
        ("", None, None),
        ("", 3.0, Deadline(total_s=3.0)),
        ("deadline: {total_s: 2}", None, Deadline(total_s=2.0)),
        ("deadline: {total_s: 2}", 3.0, Deadline(total_s=2.0)),
        ("deadline: {total_s: 9}", 3.0, Deadline(total_s=3.0)),
        ("deadline: {first_token_s: 1}", 3.0, Deadline(first_token_s=1.0, total_s=3.0)),
    ],
)
def test_of_the_routes_and_the_clients_deadline_the_sooner_holds(
    make_world: Callable[..., World],
    make_request: Any,
    route: str,
    client_s: float | None,
    expected: Deadline | None,
) -> None:
    """The client has none for the first token."""
    arrival = replace(make_request("hi").arrival, deadline_s=client_s)
    assert expected == _world(make_world, f"targets: [a], {route}").routes[0].deadline_of(arrival)
