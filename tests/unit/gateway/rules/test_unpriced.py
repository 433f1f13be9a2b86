from decimal import Decimal
from typing import Any

import pytest

from gateway.errors import ConfigurationError
from gateway.price import Usage
from gateway.rules.policy_file import parse_policy
from gateway.rules.world import build_world

POLICY = """
backends:
  known: {{use: fake, models: {{m: {{price: {{input_usd_per_mtok: 1, output_usd_per_mtok: 2}}}}}}}}
  unknown: {{use: fake, models: [m]}}
{defaults}
routes:
  r: {{models: ["*"], targets: [known, unknown]{unpriced}}}
"""


def _prices(make_scene: Any, clock: Any, **parts: str) -> dict[str, Any]:
    """The price of each candidate, under a policy file with these parts."""
    policy = POLICY.format(**{"defaults": "", "unpriced": ""} | parts)
    return {name: candidate.price for name, candidate in make_scene(clock, policy).look().items()}


def test_an_unknown_price_is_unknown_unless_said(make_scene: Any, clock: Any) -> None:
    """It is not zero."""
    prices = _prices(make_scene, clock)
    assert (None, Decimal(2)) == (prices["unknown"], prices["known"].output_usd_per_mtok)


@pytest.mark.parametrize("part", ["defaults", "unpriced"])
def test_a_price_may_be_assumed(make_scene: Any, clock: Any, part: str) -> None:
    """For a route or for all; what is known stays as it is, and a cost by it tells that it is assumed."""
    said = "unpriced: {assume: {input_usd_per_mtok: 30, output_usd_per_mtok: 60.5}}"
    parts = {"defaults": f"defaults: {{{said}}}"} if part == "defaults" else {"unpriced": f", {said}"}
    prices = _prices(make_scene, clock, **parts)
    charge = prices["unknown"].charge(Usage(output_tokens=1_000_000))
    assert (Decimal("60.5"), "assumed") == (charge.usd, charge.source)
    assert "policy" == prices["known"].source


def test_what_has_no_price_may_be_refused(make_policy_world: Any) -> None:
    """By a filter, after the route's own; one that has it already has it once."""
    routes = make_policy_world(POLICY.format(defaults="", unpriced=", unpriced: refuse")).routes
    assert ["healthy", "capable", "fits_context", "priced"] == [name for name, _ in routes[0].filters]
    twice = POLICY.format(defaults="", unpriced=", unpriced: refuse, filter: [priced]")
    assert ["priced"] == [name for name, _ in make_policy_world(twice).routes[0].filters]


@pytest.mark.parametrize("said", ["maybe", "{assume: 3}", "{assume: {input_usd_per_mtok: -1, output_usd_per_mtok: 1}}"])
def test_a_word_that_is_none_is_told(make_policy_world: Any, said: str) -> None:
    """With its place in the file."""
    with pytest.raises(ConfigurationError, match=r"routes\.r\.unpriced"):
        make_policy_world(POLICY.format(defaults="", unpriced=f", unpriced: {said}"))


@pytest.fixture
def make_policy_world() -> Any:
    """Makes a world out of a policy file's text."""
    return lambda text: build_world(parse_policy(text, file="policy.yaml"), file="policy.yaml")
