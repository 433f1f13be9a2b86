"""The policy file on guards: what it takes, and what it says of what it does not take."""

from collections.abc import Callable
from typing import Any

import pytest

from gateway.errors import ConfigurationError
from gateway.rules.policy_file import parse_policy
from gateway.rules.world import World

MakeWorld = Callable[..., World]
GOOD = "{when: after, use: pattern, patterns: ['[0-9]{4}'], action: redact, on_error: refuse"


def _policy(guards: str, more: str = "", top: str = "") -> str:
    return f"""
        backends: {{only: {{use: fake}}}}
        routes: {{main: {{models: ["*"], targets: [only], guards: {guards}, {more}}}}}
        {top}
    """


def test_a_guards_own_parameters_stand_beside_those_of_all(make_world: MakeWorld) -> None:
    """Its name is the plugin's where it has none."""
    (route,) = make_world(_policy(f"[{GOOD}, timeout_s: 0.5, stream: window}}]")).routes
    assert route.guards is not None
    assert () == route.guards.before
    (rule,) = route.guards.after
    assert ("pattern", "pattern", True, 0.5, "window", 4) == (
        rule.name,
        rule.kind,
        rule.refuses,
        rule.timeout_s,
        rule.stream,
        rule.guard.longest_chars,
    )


def test_a_route_takes_the_guards_of_the_defaults_or_its_own(make_world: MakeWorld) -> None:
    """An empty list takes it out of them."""
    text = f"""
        backends: {{only: {{use: fake}}}}
        defaults: {{guards: [{GOOD}}}]}}
        routes:
          guarded: {{models: [a], targets: [only]}}
          free: {{models: [b], targets: [only], guards: []}}
    """
    guarded, free = make_world(text).routes
    assert (1, None) == (len(guarded.guards.rules), free.guards)


def test_a_route_that_stays_as_it_is_stays_the_same(make_world: MakeWorld) -> None:
    """A reload forgets nothing of it."""
    text = _policy(f"[{GOOD}}}]")
    old = make_world(text)
    assert old.routes[0] is make_world(text, old=old).routes[0]
    assert old.routes[0] is not make_world(text.replace("refuse", "allow"), old=old).routes[0]


@pytest.mark.parametrize(
    ("guards", "where", "fault"),
    [
        (f"[{GOOD}}}]".replace(", on_error: refuse", ""), "routes.main.guards[0].on_error", "must be given"),
        (f"[{GOOD}}}]".replace("when: after, ", ""), "routes.main.guards[0].when", "must be given"),
        (f"[{GOOD}}}]".replace("use: pattern, ", ""), "routes.main.guards[0]", "unknown field"),
        (f"[{GOOD}, timeout_s: 0}}]", "routes.main.guards[0].timeout_s", "more than 0"),
        (f"[{GOOD}, timeot_s: 1}}]", "routes.main.guards[0].timeot_s", "unknown parameter"),
        (f"[{GOOD}, patern: 1}}]", "routes.main.guards[0].patern", "unknown parameter"),
        (
            f"[{GOOD}, on_eror: 1}}]".replace("on_error: refuse, ", ""),
            "routes.main.guards[0].on_error",
            "must be given",
        ),
        ("[pattern]", "routes.main.guards[0].when", "must be given"),
        (f"[{GOOD}}}]".replace("pattern,", "patern,"), "routes.main.guards[0]", "did you mean `pattern`"),
        (f"[{GOOD}}}, {GOOD}}}]", "routes.main.guards[1]", "there are two guards `pattern`"),
        (f"[{GOOD}, stream: hold}}]".replace("after", "before"), "routes.main.guards[0].stream", "after the answer"),
        (f"[{GOOD}, stream: pass}}]", "routes.main.guards[0].stream", "only annotate"),
        (
            f"[{GOOD}, stream: window}}]".replace("{4}", "+"),
            "routes.main.guards[0].stream",
            "needs patterns that are bounded",
        ),
        (
            f"[{GOOD}, stream: window}}]".replace("'[0-9]{4}'", "'[0-9]{900}[a-z]{900}'"),
            "routes.main.guards[0].stream",
            "a pattern here may need 1800",
        ),
        (
            "[{when: after, use: cel, expression: 'true', action: block, on_error: allow, stream: window}]",
            "routes.main.guards[0].stream",
            "tell from a part of a text",
        ),
        (f"[{GOOD}, timeout_s: 30}}, {GOOD}, timeout_s: 30, name: b}}]", "routes.main.guards", "timeouts.client_s"),
        (f"[{GOOD}, annotations: ['a b']}}]", "routes.main.guards[0].annotations[0]", "form that is not allowed"),
        ("[{when: before, use: cel, expression: 'x ==', action: block, on_error: allow}]", "guards[0]", "is no CEL"),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(make_world: MakeWorld, guards: str, where: str, fault: str) -> None:
    """With a way out where there is one."""
    with pytest.raises(ConfigurationError) as caught:
        make_world(_policy(guards))
    assert where in str(caught.value)
    assert fault in str(caught.value)


def test_the_keys_of_services_are_secrets_wherever_they_stand(make_world: MakeWorld) -> None:
    """In routes, defaults and tenants; so that they are written nowhere."""
    hook = "{when: before, use: http, url: 'https://g', on_error: allow, headers: {x-k: {env: %s}}, api_key_env: %s}"
    tenants = f"tenants: {{t: {{keys_sha256: ['{'0' * 64}'], guards: [{hook % ('C_KEY', 'D_KEY')}]}}}}"
    policy = parse_policy(_policy(f"[{hook % ('A_KEY', 'B_KEY')}]", top=tenants), file="policy.yaml")
    assert {"A_KEY", "B_KEY", "C_KEY", "D_KEY"} == set(policy.secret_names())
    moderated = "[{when: before, use: openai_moderation, action: block, on_error: allow}]"
    assert ("OPENAI_API_KEY",) == _world_secrets(make_world(_policy(moderated)))


def _world_secrets(world: Any) -> tuple[str, ...]:
    from pathlib import Path

    return tuple(world.secret_names(Path()))
