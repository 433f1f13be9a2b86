from collections.abc import Callable
from decimal import Decimal

import pytest

from gateway.errors import ConfigurationError
from gateway.limits.limit import NANO
from gateway.rules.policy_file import parse_policy
from gateway.rules.world import World

BACKENDS = "backends: {a: {use: fake, models: [small]}, b: {use: fake, models: [large]}, c: {use: fake, models: [m]}}\n"
STEPS = "[{targets: [a], judge: [valid_json]}, {targets: [b]}]"


def _file(route: str, more: str = "") -> str:
    return f"{BACKENDS}{more}\nroutes: {{r: {{models: ['*'], {route}}}}}"


def test_a_list_of_judges_is_one_whose_judges_must_all_pass(make_world: Callable[..., World]) -> None:
    """For short; the long form says `all` or `any`, and how many are judged."""
    short = make_world(_file("targets: [a], judge: [valid_json, finish_reason]")).routes[0].judging
    long = make_world(_file("targets: [a], judge: {any: [valid_json], sample: 0.1}")).routes[0].judging
    assert (["valid_json", "finish_reason"], True, 1.0) == ([n for n, _ in short.judges], short.every, short.sample)
    assert (False, 0.1, "valid_json+finish_reason") == (long.every, long.sample, short.name)


def test_what_a_route_leaves_out_comes_from_the_defaults(make_world: Callable[..., World]) -> None:
    """Judges and shadows as everything else."""
    defaults = "defaults: {judge: [valid_json], shadow: {to: c, share: 0.5, usd: 2}}"
    route = make_world(_file("targets: [a]", defaults)).routes[0]
    assert ("valid_json", "c", 0.5) == (route.judging.name, route.shadow.route.targets[0].backend, route.shadow.share)
    assert route.watched
    assert not make_world(_file("targets: [a]")).routes[0].watched


def test_the_steps_of_a_cascade_are_routes_of_their_own(make_world: Callable[..., World]) -> None:
    """With their own targets, and one attempt kept for each step after them; the route itself has all targets."""
    steps = "[{targets: [a], judge: [valid_json]}, {targets: [b], judge: [non_empty]}, {targets: [c]}]"
    route = make_world(_file(f"attempts: 4, cascade: {steps}")).routes[0]
    assert ["a", "b", "c"] == [target.backend for target in route.targets]
    assert [["a"], ["b"], ["c"]] == [[target.backend for target in step.route.targets] for step in route.cascade]
    assert [2, 3, 4] == [step.route.attempts for step in route.cascade]
    assert [True, False] == [route.cascade[0].asks("a", "small"), route.cascade[0].asks("b", "large")]
    assert [False, False, False] == [step.route.watched for step in route.cascade]


def test_a_shadow_has_a_budget_and_one_attempt(make_world: Callable[..., World]) -> None:
    """In billionths of a dollar, as limits count."""
    route = make_world(_file("targets: [a], shadow: {to: b/large, share: 0.1, usd: 1.5, per: week}")).routes[0]
    budget = route.shadow.budget
    assert (int(Decimal("1.5") * NANO), "week", "shadow:r") == (budget.amount, str(budget.period), budget.scope)
    assert (1, [("b", "large")]) == (
        route.shadow.route.attempts,
        [(target.backend, target.model) for target in route.shadow.route.targets],
    )


@pytest.mark.parametrize(
    ("route", "where", "complaint"),
    [
        ("targets: [a], judge: {sample: 0.1}", "routes.r.judge", "has `all` or `any`, one of the two"),
        ("targets: [a], judge: {all: [valid_json], any: [valid_json]}", "routes.r.judge", "one of the two"),
        ("targets: [a], judge: [valid_jsn]", "routes.r.judge.all[0]", "did you mean `valid_json`?"),
        ("targets: [a], judge: []", "routes.r.judge.all", "should not be empty"),
        ("targets: [a], judge: {all: [valid_json], sampel: 1}", "routes.r.judge.sampel", "did you mean `sample`?"),
        ("targets: [a], judge: {all: [valid_json], sample: 0}", "routes.r.judge.sample", "should be more than 0"),
        ("judge: [valid_json]", "routes.r.targets", "must be given (or a `cascade`)"),
        ("targets: []", "routes.r.targets", "must be given"),
        (f"targets: [c], cascade: {STEPS}", "routes.r", "has `targets` or a `cascade`, not both"),
        ("cascade: [{targets: [a], judge: [valid_json]}]", "routes.r.cascade", "at least two steps"),
        ("cascade: [{targets: [a]}, {targets: [b]}]", "routes.r.cascade[0].judge", "must be given"),
        (
            "cascade: [{targets: [a], judge: [valid_json]}, {targets: [b], judge: [valid_json]}]",
            "routes.r.cascade[1].judge",
            "the last step has no judge",
        ),
        ("cascade: [{targets: [a], judge: [valid_json]}, {targets: [a]}]", "routes.r.cascade", "stands in one step"),
        (f"attempts: 1, cascade: {STEPS}", "routes.r.cascade", "`attempts` is 1, and the cascade has 2 steps"),
        (
            "cascade: [{targets: [a], judge: [valid_json], timeout: 3}, {targets: [b]}]",
            "routes.r.cascade[0].timeout",
            "did you mean `timeout_s`?",
        ),
        ("targets: [a], shadow: {to: d, share: 0.1, usd: 1}", "routes.r.shadow.to", "there is no backend `d`"),
        ("targets: [a], shadow: {to: b, share: 0.1}", "routes.r.shadow.usd", "must be given"),
        ("targets: [a], shadow: {to: b, share: 0.1, usd: 1, per: aeon}", "routes.r.shadow", "aeon"),
    ],
)
def test_a_mistake_is_named_with_its_place(
    make_world: Callable[..., World], route: str, where: str, complaint: str
) -> None:
    """And a way out."""
    with pytest.raises(ConfigurationError) as caught:
        make_world(_file(route))
    assert f"policy.yaml: {where}" in str(caught.value)
    assert complaint in str(caught.value)


def test_keys_of_judges_are_known_by_name() -> None:
    """So that `check` says which are not set, and no log ever shows one."""
    judge = "{use: http, url: 'https://j.example.com/v1', send: [], api_key_env: %s}"
    route = (
        f"cascade: [{{targets: [a], judge: [{judge % 'KEY_1'}]}}, {{targets: [b]}}], "
        f"judge: [{judge % 'KEY_2'}], shadow: {{to: c, share: 1, usd: 1, judge: [{judge % 'KEY_3'}]}}"
    )
    policy = parse_policy(_file(route, f"defaults: {{judge: [{judge % 'KEY_4'}]}}"), file="policy.yaml")
    assert {"KEY_1", "KEY_2", "KEY_3", "KEY_4"} == set(policy.secret_names())
