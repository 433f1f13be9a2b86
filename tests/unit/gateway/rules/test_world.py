from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from gateway.errors import ConfigurationError, ModelNotFound
from gateway.rules.route import Patience, Target
from gateway.rules.world import World
from gateway.worth import Worth

MakeWorld = Callable[..., World]
DIGEST, OTHER_DIGEST = "ab" * 32, "cd" * 32

TWO = """
    backends:
      a: {use: fake, models: [small, large]}
      b: {use: fake, models: [large]}
"""


def test_without_routes_each_model_answers_under_its_own_name(make_world: MakeWorld) -> None:
    """Wherever a model is served is where it may go, in the order of the file."""
    world = make_world(TWO)
    assert ("small", "large") == world.models()
    assert (Target(backend="a", model="large"), Target(backend="b", model="large")) == world.match("large").targets
    with pytest.raises(ModelNotFound):
        world.match("Large")


def test_models_that_differ_in_case_only_are_two(make_world: MakeWorld) -> None:
    """Neither takes the other's place."""
    world = make_world("backends: {a: {use: fake, models: [Llama, llama]}}")
    assert ("Llama", "llama") == world.models()
    assert ("Llama", "llama") == tuple(world.match(model).targets[0].model for model in world.models())


def test_a_models_name_may_be_longer_than_a_pattern(make_world: MakeWorld) -> None:
    """The bound on what people write in a route does not hold for the names that providers give."""
    assert ("m" * 300,) == make_world(f"backends: {{a: {{use: fake, models: [{'m' * 300}]}}}}").models()


def test_the_first_route_that_answers_wins(make_world: MakeWorld) -> None:
    """The order of the file decides, for names and for patterns alike."""
    world = make_world(
        f"{TWO}\n    routes:\n      one: {{models: [lar*], targets: [a/large]}}\n"
        "      two: {models: [large, '*'], targets: [b]}"
    )
    assert ("one", "two", "two") == tuple(world.match(model).name for model in ("large", "small", "anything"))


def test_the_latest_of_a_model_is_the_model(make_world: MakeWorld) -> None:
    """The file may name Ollama's models as Ollama does; a name that is there as it stands goes first."""
    world = make_world("backends: {a: {use: fake, models: [llama:latest, qwen, 'qwen:latest']}}")
    assert ("llama:latest", "llama:latest", "qwen", "qwen:latest") == tuple(
        world.match(model).name for model in ("llama", "llama:latest", "qwen", "qwen:latest")
    )


def test_an_unknown_model_is_not_repeated_to_the_client(make_world: MakeWorld) -> None:
    """An error is no place for what a client wrote."""
    with pytest.raises(ModelNotFound) as caught:
        make_world(TWO).match("<script>")
    assert (404, "model") == (caught.value.http_status, caught.value.param)
    assert "script" not in str(caught.value)


def test_models_behind_a_pattern_are_shown_where_the_route_answers_them(make_world: MakeWorld) -> None:
    """Names come first, then what the targets list and the pattern lets through; each once."""
    routes = "routes: {r: {models: ['s*', fast], targets: [a/small, b]}, s: {models: [large], targets: [b]}}"
    world = make_world(f"{TWO}\n    {routes}")
    assert ("fast", "large", "small") == world.models()
    assert ("a", "b") == (world.owner("small"), world.owner("large"))


def test_a_target_without_a_model_leaves_it_to_the_request(make_world: MakeWorld) -> None:
    """That is right where the backend serves one model, any model, or those that the route names."""
    world = make_world(f"{TWO}\n    routes: {{r: {{models: [small, large], targets: [a, b]}}}}")
    assert (Target(backend="a", model=None), Target(backend="b", model=None)) == world.routes[0].targets


def test_a_models_name_may_have_slashes(make_world: MakeWorld) -> None:
    """Only the first slash of a target divides."""
    world = make_world(
        "backends: {a: {use: fake, models: [meta/llama/70b]}}\nroutes: {r: {models: [x], targets: [a/meta/llama/70b]}}"
    )
    assert "meta/llama/70b" == world.routes[0].targets[0].model


@pytest.mark.parametrize(
    ("rest", "where", "words", "hint"),
    [
        ("routes: {r: {models: [x], targets: [c]}}", "routes.r.targets[0]", "no backend `c`", "backends are a, b"),
        ("routes: {r: {models: [x], targets: [b, a/x]}}", "routes.r.targets[1]", "list `x`", "it lists small, large"),
        ("routes: {r: {models: [x], targets: [a/]}}", "routes.r.targets[0]", "name is missing", "`a` alone"),
        ("routes: {r: {models: [x], targets: [a]}}", "routes.r.targets[0]", "serves 2 models", "name one: `a/small`"),
        ("routes: {r: {models: [x], targets: [b], rank: by_cots}}", "routes.r.rank", "`by_cots`", "`by_cost`"),
        ("routes: {r: {models: [x], targets: [b], cost: [money, {use: rsik}]}}", "routes.r.cost[1]", "rsik", "`risk`"),
        ("defaults: {filter: [healthy, helthy]}", "defaults.filter[1]", "`helthy`", "`healthy`"),
        ("defaults: {admit: {use: fixed_concurrency, limit: 0}}", "defaults.admit.limit", "at least 1", ""),
        ("defaults: {admit: {limit: 3}}", "defaults.admit", "`use`", "fixed_concurrency"),
        (
            f"tenants: {{t: {{keys_sha256: [{DIGEST}]}}, u: {{keys_sha256: [{OTHER_DIGEST}, {DIGEST}]}}}}",
            "tenants.u.keys_sha256[1]",
            "belongs to `t` too",
            "",
        ),
    ],
)
def test_an_error_names_the_file_and_the_path_in_it(
    make_world: MakeWorld, rest: str, where: str, words: str, hint: str
) -> None:
    """What is wrong in a plugin, a target or a key is found by its place."""
    with pytest.raises(ConfigurationError) as caught:
        make_world(f"{TWO}\n    {rest}")
    error = caught.value
    assert ("policy.yaml", where) == (error.file, error.where)
    assert words in error.bare
    assert hint in error.hint
    assert 1 == str(error).count("policy.yaml")


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("backends: {a: {use: fkae}}", "backends.a", "no backend plugin `fkae`"),
        ("backends: {a: {use: fake, txt: x}}", "backends.a.txt", "unknown parameter"),
        ("backends: {a: {use: fake, tokens: 0}}", "backends.a.tokens", "at least 1"),
        ("backends: {a: {use: openai_compatible, base_url: 'http://127.0.0.1:1/v1'}}", "routes", "must be a route"),
    ],
)
def test_an_error_in_a_backend_is_found_likewise(make_world: MakeWorld, text: str, where: str, words: str) -> None:
    """A backend that lists nothing can be reached by a route only."""
    with pytest.raises(ConfigurationError, match=words) as caught:
        make_world(text)
    assert ("policy.yaml", where) == (caught.value.file, caught.value.where)


def test_a_route_takes_what_it_leaves_out_from_the_defaults(make_world: MakeWorld) -> None:
    """Field by field: what a route says itself stands, and what nobody says is built in."""
    world = make_world(
        f"{TWO}\n    defaults: {{attempts: 5, cost: [money], timeouts: {{idle_s: 7}}, worth: {{usd_per_second: 2}}}}\n"
        "    routes: {own: {models: [x], targets: [b], attempts: 1, cost: [risk]}, none: {models: [y], targets: [b]}}"
    )
    own, none = world.routes
    assert (1, 5) == (own.attempts, none.attempts)
    assert (["risk"], ["money"]) == ([name for name, _ in own.scorers], [name for name, _ in none.scorers])
    assert Patience(first_token_s=120.0, idle_s=7.0, total_s=900.0) == own.patience
    assert Worth(usd_per_second=2.0, usd_per_success=0.01) == none.worth


def test_keys_lead_to_their_tenants(make_world: MakeWorld) -> None:
    """A tenant may have several keys, as it does while one is replaced."""
    world = make_world(f"{TWO}\n    tenants: {{t: {{keys_sha256: [{DIGEST}, {OTHER_DIGEST}]}}}}")
    assert {DIGEST: "t", OTHER_DIGEST: "t"} == {key: who.tenant for key, who in world.tenancy.keys.items()}


def test_a_reload_keeps_the_backends_that_have_not_changed(make_world: MakeWorld) -> None:
    """The same configuration under the same name is the same running backend; all else is fresh."""
    old = make_world("backends: {a: {use: fake, text: x}, b: {use: fake, text: x}, c: {use: fake, text: x}}")
    new = make_world("backends: {a: {use: fake, text: x}, b: {use: fake, text: y}, d: {use: fake, text: x}}", old=old)
    assert new.backends["a"] is old.backends["a"]
    assert new.backends["b"] is not old.backends["b"]
    assert new.backends["d"] is not old.backends["c"]
    assert ("x", "y") == (old.backends["b"].text, new.backends["b"].text)


def test_a_reload_keeps_the_routes_that_have_not_changed(make_world: MakeWorld) -> None:
    """What their policies have learned and who holds which place stays; a route that changed begins anew."""
    routes = "r: {{models: [x], targets: [a]}}, s: {{models: [y], targets: [a], {0}}}"
    text = f"backends: {{{{a: {{{{use: fake}}}}}}}}\nroutes: {{{{{routes}}}}}"
    old = make_world(text.format("attempts: 1"))
    new = make_world(text.format("attempts: 2"), old=old)
    assert new.routes[0] is old.routes[0]
    assert new.routes[1].admitter is not old.routes[1].admitter


def test_who_learns_is_told_once_each(make_world: MakeWorld) -> None:
    """Those without `observe` are not asked; routes that forecast alike do so with one classifier."""
    world = make_world(
        f"""{TWO}
    routes:
      r: {{models: [x], targets: [b]}}
      s: {{models: [y], targets: [b]}}
      t: {{models: [z], targets: [b], classify: by_length}}
    """
    )
    one, other, apart = (route.classifier for route in world.routes)
    assert one is other
    assert [one, apart] == list(world.observers())
    assert [one] == list(world.learners())
    assert {"r", "s", "t"} == set(world.admitters())


def test_a_world_is_all_that_a_reload_replaces() -> None:
    """Whoever adds a field must think of the reload."""
    assert ["backends", "routes", "tenancy"] == [field.name for field in fields(World)]


def test_a_key_that_only_a_preset_names_is_known_to_be_one(make_world: Callable[..., World], tmp_path: Path) -> None:
    """It has to be hidden in logs like any other."""
    world = make_world("backends: {one: {use: openai_compatible, preset: groq, models: [m]}, two: {use: fake}}")
    assert ("GROQ_API_KEY",) == world.secret_names(tmp_path)
