from typing import Any

import pytest

from gateway.errors import ConfigurationError
from gateway.replay.scene import Scene, Stage
from gateway.rules.policy_file import parse_policy

TWO = """
    backends:
      own: {use: fake, models: [small]}
      paid: {use: fake, models: {small: {context_tokens: 4096, price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}}}}
    routes:
      both: {models: ["a*"], targets: [own/small, paid/small]}
      one: {models: ["*"], targets: [own/small]}
"""


def _scene(route: str | None, replicas: int | None, text: str = TWO) -> Scene:
    return Stage(policy=parse_policy(text, file="p"), file="p", route=route, replicas=replicas).build()


def _names(scene: Scene) -> list[str]:
    assert [target.backend for target in scene.route.targets] == list(scene.backends)
    return list(scene.backends)


def test_engines_stand_in_for_the_route_s_backends() -> None:
    """As many as asked for, its targets in turn; else one each, or eight of a single one."""
    assert ["own", "paid"] == _names(_scene("both", None))
    assert ["own", "paid"] == _names(_scene("both", 2))
    assert ["own-1", "paid-1", "own-2"] == _names(_scene("both", 3))
    assert ["own-1", "own-2", "own-3"] == _names(_scene("one", 3))
    assert 8 == len(_scene("one", None).backends)


def test_an_engine_costs_and_fits_what_its_backend_does() -> None:
    """It is up and able, though: the backend itself may need a key or a network."""
    facts = _scene("both", 3).backends["paid-1"].facts()
    assert (None, True, 4096) == (facts.down, facts.keeps_prefixes, facts.unlisted.context_tokens)
    assert facts.unlisted.price is not None
    assert (None, None) == (facts.unlisted.capabilities, facts.unlisted.carries)


def test_each_gateway_has_policies_of_its_own() -> None:
    """What one learns, the other has to learn itself."""
    stage = Stage(policy=parse_policy(TWO, file="p"), file="p", route="one", replicas=2)
    one, other = stage.build(), stage.build()
    assert one.route.classifier is not other.route.classifier


@pytest.mark.parametrize(
    ("route", "words"),
    [
        (None, "there are several routes (`--route` names one; routes are both, one)"),
        ("bath", "there is no route `bath` (routes are both, one)"),
    ],
)
def test_the_route_must_be_clear(route: str | None, words: str) -> None:
    """Where the file has several, one is to be named."""
    with pytest.raises(ConfigurationError) as refused:
        _scene(route, None)
    assert words in str(refused.value)


def test_a_backend_that_needs_an_engine_or_a_key_is_not_asked_for_it(monkeypatch: Any) -> None:
    """Nothing is started."""

    async def forbidden(*_: object) -> None:
        raise AssertionError("a backend was started")

    monkeypatch.setattr("backends.embedded.Embedded.start", forbidden)
    assert 8 == len(
        _scene(None, None, 'backends: {l: {use: embedded}}\nroutes: {r: {models: ["*"], targets: [l]}}').backends
    )


def test_of_a_cascade_the_first_step_is_played() -> None:
    """Engines write no answers that could be judged."""
    steps = "[{targets: [own/small], judge: [valid_json]}, {targets: [paid/small]}]"
    text = TWO.replace("targets: [own/small, paid/small]", f"cascade: {steps}")
    scene = _scene("both", 2, text)
    assert (["own-1", "own-2"], ()) == (_names(scene), scene.route.cascade)
