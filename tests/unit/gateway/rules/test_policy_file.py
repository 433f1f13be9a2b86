from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ConfigurationError
from gateway.rules.policy_file import PolicyFile, parse_policy, read_policy

BACKENDS = "backends: {a: {use: fake}}\n"
DIGEST = "ab" * 32


def _error(text: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        parse_policy(text, file="policy.yaml")
    return caught.value


def test_a_file_of_one_backend_is_enough() -> None:
    """Whatever is left out has a default that can serve."""
    policy = parse_policy(BACKENDS, file="policy.yaml")
    assert {"a": {"use": "fake"}} == dict(policy.backends)
    assert ("learned_length", "by_cost", "fixed_concurrency") == (
        policy.defaults.classify,
        policy.defaults.rank,
        policy.defaults.admit,
    )


def test_steps_are_kept_as_they_were_written() -> None:
    """A step is a name or a mapping; building it is not this module's work."""
    policy = parse_policy(
        f"{BACKENDS}routes: {{r: {{models: [m], targets: [a], cost: [money, {{use: risk, floor_usd: 0.5}}]}}}}",
        file="policy.yaml",
    )
    assert ["money", {"use": "risk", "floor_usd": 0.5}] == policy.routes["r"].cost
    assert {"models", "targets", "cost"} == policy.routes["r"].model_fields_set


@pytest.mark.parametrize(
    ("text", "where", "words", "hint"),
    [
        ("", "", "no mapping", "`backends:`"),
        ("- a", "", "no mapping", "`backends:`"),
        ("backends: {}", "backends", "should not be empty", ""),
        ("backends: {a: 3}", "backends.a", "should be a mapping", ""),
        ("backnds: {a: {use: fake}}", "backnds", "unknown field `backnds`", "did you mean `backends`?"),
        (BACKENDS + "x: 1", "x", "unknown field `x`", "fields here are backends, defaults, limits, routes, tenants"),
        (BACKENDS + "routes: {r: {modls: [m], targets: [a]}}", "routes.r.modls", "unknown", "did you mean `models`?"),
        (BACKENDS + "routes: {r: {targets: [a]}}", "routes.r.models", "must be given", ""),
        (BACKENDS + "routes: {r: {models: [], targets: [a]}}", "routes.r.models", "should not be empty", ""),
        (BACKENDS + "routes: {r: {models: [m, ''], targets: [a]}}", "routes.r.models[1]", "should not be empty", ""),
        (
            BACKENDS + "routes: {R!: {models: [m], targets: [a]}}",
            "routes.R!",
            "has a form that is not allowed here",
            "lower-case letters",
        ),
        (BACKENDS + "defaults: {timeouts: {idle: 3}}", "defaults.timeouts.idle", "unknown", "did you mean `idle_s`?"),
        (
            BACKENDS + "defaults: {timeouts: {idle_s: 1e3}}",
            "defaults.timeouts.idle_s",
            "should be a number",
            "without quotes",
        ),
        (BACKENDS + "defaults: {timeouts: {idle_s: 0}}", "defaults.timeouts.idle_s", "should be more than 0", ""),
        (
            BACKENDS + "defaults: {timeouts: {total_s: .inf}}",
            "defaults.timeouts.total_s",
            "should be a finite number",
            "",
        ),
        (
            BACKENDS + "defaults: {timeouts: {total_s: .nan}}",
            "defaults.timeouts.total_s",
            "should be a finite number",
            "",
        ),
        (
            BACKENDS + "defaults: {worth: {usd_per_second: -1}}",
            "defaults.worth.usd_per_second",
            "should be at least 0",
            "",
        ),
        (BACKENDS + "defaults: {attempts: 0}", "defaults.attempts", "should be at least 1", ""),
        (BACKENDS + "defaults: {attempts: 11}", "defaults.attempts", "should be at most 10", ""),
        (BACKENDS + "defaults: {filter: healthy}", "defaults.filter", "should be a list", ""),
        (BACKENDS + "routes: {r: {models: [3], targets: [a]}}", "routes.r.models[0]", "should be text", ""),
        (BACKENDS + f"routes: {{r: {{models: [{'m' * 257}], targets: [a]}}}}", "routes.r.models[0]", "most 256 c", ""),
        (BACKENDS + "defaults: {attempts: true}", "defaults.attempts", "should be a whole number", ""),
        (BACKENDS + "defaults: {attempts: '3'}", "defaults.attempts", "should be a whole number", "without quotes"),
        (BACKENDS + "defaults: {classify: 3}", "defaults.classify", "its name, or a mapping with `use`", ""),
        (BACKENDS + "defaults: {filter: [healthy, 3]}", "defaults.filter[1]", "its name, or a mapping with `use`", ""),
        (
            BACKENDS + "tenants: {t: {keys_sha256: [k]}}",
            "tenants.t.keys_sha256[0]",
            "has a form that is not allowed here",
            "sha256sum",
        ),
        (
            BACKENDS + "routes: {r: {models: [4.1]}}",
            "routes.r.models[0]",
            "should be text",
            "a number: put it in quotes",
        ),
        (BACKENDS + "routes: {r: {models: [no]}}", "routes.r.models[0]", "should be text", "false: put it in quotes"),
        (BACKENDS + "tenants: {t: {}}", "tenants.t", "a tenant needs a key", ""),
        (BACKENDS + "tenants: {t: 3}", "tenants.t", "should be a mapping", ""),
        ("a: 1\nb: 2\na: 3", "line 3", "'a' is there twice", ""),
        ("backends: [b\n", "line 2", "expected ',' or ']'", ""),
        ("backends: *missing", "line 1", "undefined alias", "`*` stands in quotes"),
        ("backends: [*]", "line 1", "but found ']'", "`*` stands in quotes"),
        ("backends: @one", "line 1", "cannot start any token", "quotes"),
        (r'backends: "\."', "line 1", "unknown escape character", "single quotes"),
        ("backends: &a {one: *a}", "line 1", "this holds itself", ""),
        ("backends:\n  one: {use: fake, models: &a [*a]}", "line 2", "this holds itself", ""),
        ("backends: {one: &a {use: fake, api_key_env: {env: *a}}}", "line 1", "this holds itself", ""),
        ("\tbackends: 1", "line 1", "cannot start any token", "spaces"),
        ("? [a, b]\n: c", "line 1", "a key must be text", ""),
        ("backends: !secret x", "line 1", "could not determine a constructor", ""),
        ("backends: !!python/object/apply:os.system [x]", "line 1", "could not determine a constructor", ""),
        ("backends: 2024-99-99", "", "YAML cannot read", "quotes"),
        ("backends: !!map [b]", "", "YAML cannot read", "quotes"),
        ("[" * 1500, "", "YAML cannot read", "quotes"),
        ("backends: \0", "", "not text that YAML allows", ""),
    ],
)
def test_an_error_names_the_file_the_place_and_a_way_out(text: str, where: str, words: str, hint: str) -> None:
    """Whoever wrote the file can find the place without reading our code."""
    error = _error(text)
    assert ("policy.yaml", where) == (error.file, error.where)
    assert words in error.bare
    assert hint in error.hint
    assert str(error).startswith("policy.yaml: ")
    assert "\n" not in str(error)


def test_a_misspelt_field_is_reported_before_the_one_missing_because_of_it() -> None:
    """Of two faults with one cause the cause is told."""
    assert "routes.r.target" == _error(f"{BACKENDS}routes: {{r: {{models: [m], target: [a]}}}}").where


def test_a_key_in_the_place_of_its_digest_is_not_repeated() -> None:
    """A secret pasted into the file stays out of the error."""
    assert "sk-very-secret" not in str(_error(f"{BACKENDS}tenants: {{t: {{keys_sha256: [sk-very-secret]}}}}"))


def test_anchors_and_merges_work() -> None:
    """YAML's own way of sharing settings is allowed; a merged key may be overridden, a written one not repeated."""
    text = """
        backends:
          a: &base {use: fake, text: one}
          b: {<<: *base, text: two}
    """
    assert {"use": "fake", "text": "two"} == parse_policy(text, file="policy.yaml").backends["b"]


def test_the_names_of_secrets_are_found_at_any_depth() -> None:
    """Every environment variable that a backend names is listed once, in the order of the file."""
    text = """
        backends:
          a: {use: x, api_key_env: A_KEY, headers: {x-team: {env: TEAM}, x-plain: plain}}
          b: {use: x, api_key_env: [A_KEY, B_KEY], nested: [{token_env: TOKEN}, {environment: prod}]}
    """
    assert ("A_KEY", "TEAM", "B_KEY", "TOKEN") == parse_policy(text, file="policy.yaml").secret_names()


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A missing file, a folder and a file in another encoding are errors of configuration, not tracebacks."""
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("backends: ü".encode("latin-1"))
    for path, words in ((tmp_path / "none.yaml", "No such file"), (tmp_path, "directory"), (latin, "not UTF-8")):
        with pytest.raises(ConfigurationError, match=words) as caught:
            read_policy(path)
        assert str(path) == caught.value.file


def test_a_file_is_read_from_disk(tmp_path: Path) -> None:
    """The path of the file is its name in errors."""
    path = tmp_path / "policy.yaml"
    path.write_text(f"{BACKENDS}tenants: {{team: {{keys_sha256: [{DIGEST}]}}}}")
    assert [DIGEST] == read_policy(path).tenants["team"].keys_sha256
    path.write_text("backends: 1")
    with pytest.raises(ConfigurationError) as caught:
        read_policy(path)
    assert str(path) == caught.value.file


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    """Whatever the file holds, the answer is a policy or an error of configuration."""
    try:
        outcome: PolicyFile | ConfigurationError = parse_policy(text, file="policy.yaml")
    except ConfigurationError as error:
        outcome = error
    assert isinstance(outcome, PolicyFile) or outcome.file == "policy.yaml"
