"""What a policy file says of success, on its routes."""

from typing import Any

import pytest

from gateway.errors import ConfigurationError
from gateway.limits.limit import Measure

POLICY = """
    backends:
      a: {use: fake, models: [m]}
      b: {use: fake, models: [m]}
      c: {use: fake, models: [m]}
    %s
    routes:
      r: {models: ["*"], targets: [a/m, b/m], %s}
"""


def _route(make_world: Any, fields: str, more: str = "") -> Any:
    return make_world(POLICY % (more, fields)).routes[0]


@pytest.mark.parametrize(
    "fields",
    [
        "cost: [money, success]",
        "success: {half_life_s: 3600}",
        "least_success: 0.9",
        "explore: {usd: 1}",
        "canary: {to: c/m}",
        "filter: [healthy, {use: least_success, rate: 0.5}]",
    ],
)
def test_a_route_steers_where_anything_depends_on_success(make_world: Any, fields: str) -> None:
    """And nowhere else."""
    assert _route(make_world, fields).steer is not None
    assert _route(make_world, "attempts: 2").steer is None


def test_the_least_success_is_the_last_filter(make_world: Any) -> None:
    """Behind those of the route: who is out for another reason does not come back."""
    route = _route(make_world, "least_success: 0.9")
    assert "least_success" == route.filters[-1][0]
    assert 0.9 == route.filters[-1][1].rate


def test_exploring_has_a_budget_on_the_calendar_of_the_file(make_world: Any) -> None:
    """As limits have."""
    steer = _route(make_world, "explore: {usd: 1.5, per: week, share: 0.2}", "limits: {time_zone: Asia/Tokyo}").steer
    budget = steer.explore.budget
    assert (0.2, Measure.USD, 1_500_000_000, "week", "Asia/Tokyo") == (
        steer.explore.share,
        budget.measure,
        budget.amount,
        str(budget.period),
        str(budget.zone),
    )


def test_a_canary_is_a_target_beside_the_others(make_world: Any) -> None:
    """The last one; clients are not shown its model."""
    route = _route(make_world, "canary: {to: c/m, share: 0.2}")
    assert [False, False, True] == [target.canary for target in route.targets]
    assert ("c/m", 0.2) == (route.steer.canary.name, route.steer.canary.share)
    assert "a/m" != route.steer.canary.name


def test_what_stands_in_the_defaults_holds_for_all_routes(make_world: Any) -> None:
    """Unless the route says otherwise."""
    defaults = "defaults: {success: {half_life_s: 60, confidence: 0.9}, least_success: 0.7}"
    route = _route(make_world, "least_success: 0.8", defaults)
    assert (60, 0.9, 0.8) == (route.steer.half_life_s, route.steer.confidence, route.filters[-1][1].rate)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ("canary: {to: a/m}", "routes.r.canary.to: this is a target already"),
        ("canary: {to: d/m}", "routes.r.canary.to: there is no backend `d`"),
        ("canary: {to: c/m, share: 0.9}", "routes.r.canary.share"),
        ("canary: {share: 0.1}", "routes.r.canary.to"),
        ("explore: {share: 0.1}", "routes.r.explore.usd"),
        ("explore: {usd: 1, per: fortnight}", "routes.r.explore.per"),
        ("least_success: 1.5", "routes.r.least_success"),
        ("success: {half_life_s: 0}", "routes.r.success.half_life_s"),
        ("success: {confidence: 1}", "routes.r.success.confidence"),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(make_world: Any, fields: str, words: str) -> None:
    """With the path in the file."""
    with pytest.raises(ConfigurationError) as refused:
        _route(make_world, fields)
    assert words in str(refused.value)


@pytest.mark.parametrize("fields", ["success: {half_life_s: 5}", "explore: {usd: 1}", "least_success: 0.9"])
def test_the_steps_of_a_cascade_steer(make_world: Any, fields: str) -> None:
    """Its targets stand in its steps, which steer as the route says."""
    cascade = "cascade: [{targets: [a/m], judge: {all: [non_empty]}}, {targets: [b/m]}]"
    route = make_world(POLICY.replace("targets: [a/m, b/m]", cascade) % ("", fields)).routes[0]
    assert [True, True] == [step.route.steer is not None for step in route.cascade]
