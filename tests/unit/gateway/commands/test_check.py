from pathlib import Path
from typing import Any

import pytest


def test_a_right_file_is_fine(run: Any, policy_file: Path) -> None:
    """Each route with its names and targets, and a last line that says so."""
    code, out, err = run("check", policy_file)
    assert (0, "") == (code, err)
    assert [
        "route main: small, gpt-* -> cheap/small, dear/small",
        "no tenant has a key: this policy can only be served on a loopback address",
        f"{policy_file}: fine, 2 backends, 1 route",
    ] == out.splitlines()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("backends: {a: {use: fkae}}", "backends.a: there is no backend plugin `fkae` (did you mean `fake`?"),
        ("backends: [", "line 1"),
        ("backends: {a: {use: fake}}\nroutes: {r: {models: [m], targets: [b]}}", "routes.r.targets[0]"),
    ],
)
def test_a_wrong_file_is_an_error_with_its_place(run: Any, policy_file: Path, text: str, words: str) -> None:
    """One line on the error stream, the exit code 1, and no traceback."""
    policy_file.write_text(text)
    code, out, err = run("check", policy_file)
    assert (1, "", 1) == (code, out, err.count("\n"))
    assert err.startswith(f"headrace: {policy_file}: ")
    assert words in err


def test_a_file_that_is_not_there_is_named(run: Any, tmp_path: Path) -> None:
    """As every other mistake."""
    code, _, err = run("check", tmp_path / "none.yaml")
    assert (1, True) == (code, "none.yaml: cannot be read: No such file" in err)


def test_secrets_that_are_not_set_are_warned_of(run: Any, policy_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name; the file is right all the same, and those that are set are not mentioned."""
    monkeypatch.setenv("SET_KEY", "sk-value")
    monkeypatch.delenv("UNSET_KEY", raising=False)
    remote = "{{use: openai_compatible, preset: groq, models: [m], api_key_env: {0}}}"
    policy_file.write_text(f"backends: {{a: {remote.format('SET_KEY')}, b: {remote.format('UNSET_KEY')}}}")
    code, out, _ = run("check", policy_file)
    assert (0, True) == (code, "warning: UNSET_KEY is not set in this environment" in out)
    assert f"{policy_file}: right, but 1 environment variable is not set (2 backends, 1 route)" == out.splitlines()[-1]
    assert "SET_KEY" not in out.replace("UNSET_KEY", "")
    assert "sk-value" not in out


def test_with_keys_any_address_will_do(run: Any, policy_file: Path) -> None:
    """The remark about loopback addresses is for open houses."""
    policy_file.write_text(f"backends: {{a: {{use: fake}}}}\ntenants: {{t: {{keys_sha256: [{'ab' * 32}]}}}}")
    assert "loopback" not in run("check", policy_file)[1]


def test_the_variable_that_a_preset_names_is_needed_too(
    run: Any, policy_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the file does not say it, ``serve`` will want it."""
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    monkeypatch.delenv("POOL", raising=False)
    policy_file.write_text(
        "backends: {a: {use: openai_compatible, preset: groq, models: [m], headers: {x-pool: {env: POOL}}}}"
    )
    _, out, _ = run("check", policy_file)
    assert "warning: GROQ_API_KEY is not set in this environment" in out
    assert "right, but 2 environment variables are not set (1 backend, 1 route)" in out
    monkeypatch.setenv("GROQ_API_KEY", "x")
    monkeypatch.setenv("POOL", "x")
    assert "fine, 1 backend, 1 route" in run("check", policy_file)[1]


def test_a_key_in_the_place_of_its_variable_is_an_error_that_keeps_it_secret(run: Any, policy_file: Path) -> None:
    """Pasted by mistake, it must not end up in a log."""
    policy_file.write_text("backends: {a: {use: openai_compatible, preset: groq, models: [m], api_key_env: gsk_Ab12}}")
    code, out, err = run("check", policy_file)
    assert (1, "", True) == (code, out, "backends.a.api_key_env: " in err)
    assert "gsk_Ab12" not in err


@pytest.fixture
def no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache without a model."""
    monkeypatch.setenv("HEADRACE_MODEL_DIR", str(tmp_path / "models"))


@pytest.mark.usefixtures("no_models")
def test_a_model_that_is_not_pulled_is_warned_of_with_the_command(run: Any, policy_file: Path) -> None:
    """The file is right, and serving would begin with a backend that is down."""
    policy_file.write_text("backends: {local: {use: embedded}}")
    code, out, _ = run("check", policy_file)
    assert 0 == code
    assert "warning: backends.local: model smollm2-135m-instruct:q8_0 is not pulled yet" in out
    assert "run `headrace model pull smollm2-135m-instruct:q8_0`" in out


@pytest.mark.usefixtures("no_models")
def test_a_model_that_there_is_not_is_an_error(run: Any, policy_file: Path) -> None:
    """With what was meant, and where it stands."""
    policy_file.write_text("backends: {local: {use: embedded, model: 'smollm2-135m-instruct:q8'}}")
    code, out, err = run("check", policy_file)
    assert (1, "") == (code, out)
    assert f"{policy_file}: backends.local.model: there is no model" in err
    assert "Did you mean smollm2-135m-instruct:q8_0?" in err


FREE = "{price: {input_usd_per_mtok: 0, output_usd_per_mtok: 0}}"


def _warnings(
    run: Any, policy_file: Path, rest: str, backends: str = f"a: {{use: fake, models: {{m: {FREE}}}}}"
) -> Any:
    policy_file.write_text(f"backends: {{{backends}}}\n{rest}")
    code, out, _ = run("check", policy_file)
    assert 0 == code
    return [line.removeprefix("warning: ") for line in out.splitlines() if line.startswith("warning: ")]


@pytest.mark.parametrize(
    ("models", "above"),
    [
        (["m"], ["m"]),
        (["m"], ["*"]),
        (["gpt-4*", "gpt-*-mini"], ["gpt-*"]),
        (["*"], ["*"]),
        (["a*b*c"], ["a*c"]),
    ],
)
def test_a_route_that_is_never_reached(run: Any, policy_file: Path, models: list[str], above: list[str]) -> None:
    """Whatever it would answer is answered above it."""
    routes = f"routes:\n  r1: {{models: {above}, targets: [a]}}\n  r2: {{models: {models}, targets: [a]}}"
    assert ["routes.r2: it is never reached, for `r1` above it answers all of its models"] == _warnings(
        run, policy_file, routes
    )


@pytest.mark.parametrize(
    ("models", "above"), [(["m", "n"], ["m"]), (["*"], ["m*"]), (["gpt-*"], ["gpt-4*"]), (["a*c"], ["a*b*c"])]
)
def test_a_route_that_answers_one_more_name_is_reached(
    run: Any, policy_file: Path, models: list[str], above: list[str]
) -> None:
    """Overlap is what the order is for."""
    routes = f"routes:\n  r1: {{models: {above}, targets: [a]}}\n  r2: {{models: {models}, targets: [a]}}"
    assert [] == _warnings(run, policy_file, routes)


def test_a_backend_that_no_route_uses(run: Any, policy_file: Path) -> None:
    """Written down and forgotten."""
    two = f"a: {{use: fake, models: {{m: {FREE}}}}}, b: {{use: fake, models: {{m: {FREE}}}}}"
    found = _warnings(run, policy_file, "routes: {r: {models: [m], targets: [a]}}", two)
    assert ["backends.b: no route uses it"] == found


def test_a_target_that_is_there_twice(run: Any, policy_file: Path) -> None:
    """With and without the model's name it is the same."""
    found = _warnings(run, policy_file, "routes: {r: {models: [m], targets: [a, a/m]}}")
    assert ["routes.r.targets: `a/m` is there 2 times; once is enough"] == found


@pytest.mark.parametrize(("key", "seconds"), [("first_token_s", 20), ("idle_s", 20), ("idle_s", 30)])
def test_a_timeout_that_never_counts(run: Any, policy_file: Path, key: str, seconds: int) -> None:
    """The whole answer has less time than one of its parts."""
    timeouts = {"first_token_s": 1, "idle_s": 1, "total_s": 20, key: seconds}
    found = _warnings(run, policy_file, f"defaults: {{timeouts: {timeouts}}}")
    assert [f"routes.m.timeouts: `{key}` ({seconds} s) never counts, for `total_s` is 20 s"] == found


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ("[m]", "`m` has"),
        ("[m, n]", "`m`, `n` have"),
        (f"{{m: {FREE}, n: null}}", "`n` has"),
        ("[]", "its models have"),
    ],
)
def test_models_without_a_price(run: Any, policy_file: Path, models: str, words: str) -> None:
    """They are billed as if they were dear, and cost nothing in the ledger."""
    backend = f"a: {{use: openai_compatible, base_url: 'http://127.0.0.1:1/v1', models: {models}}}"
    found = _warnings(
        run, policy_file, "routes: {r: {models: [m, n], targets: [a]}}" if models != "[m]" else "", backend
    )
    assert [f"backends.a: {words} no price: the bill assumes one, and the ledger has no cost"] == found


@pytest.mark.usefixtures("no_models")
def test_a_price_that_is_reckoned_once_the_engine_runs_is_not_missed(run: Any, policy_file: Path) -> None:
    """By the hour: the price of a token follows from the speed that is measured at the start."""
    found = _warnings(run, policy_file, "", "a: {use: embedded, usd_per_hour: 0.5}")
    assert not any("no price" in warning for warning in found)


def test_a_key_that_has_expired_is_warned_of(run: Any, policy_file: Path) -> None:
    """It is refused at the door, which is easily taken for a wrong key; one that still opens is not mentioned."""
    keys = "old: {{sha256: {0}, expires: 2020-01-01T00:00:00Z}}, new: {{sha256: {1}, expires: 9000-01-01T00:00:00Z}}"
    policy_file.write_text(
        f"backends: {{a: {{use: fake}}}}\ntenants: {{t: {{keys: {{{keys.format('ab' * 32, 'cd' * 32)}}}}}}}"
    )
    code, out, _ = run("check", policy_file)
    assert 0 == code
    assert "warning: tenants.t.keys.old: it expired at 2020-01-01T00:00:00+00:00 and opens nothing" in out
    assert "keys.new" not in out


@pytest.mark.parametrize(
    ("unpriced", "what"), [("", "keeps requests from a"), (", unpriced: allow", "counts nothing of a")]
)
def test_a_limit_in_dollars_beside_an_unknown_price_is_warned_of(
    run: Any, policy_file: Path, unpriced: str, what: str
) -> None:
    """It can count nothing there: whoever reads the warning says which of the two is meant."""
    limits = f"[{{usd: 5, per: day{unpriced}}}]"
    price = "{input_usd_per_mtok: 1, output_usd_per_mtok: 1}"
    policy_file.write_text(
        f"backends: {{a: {{use: fake}}, b: {{use: fake, models: {{m: {{price: {price}}}}}}}}}"
        f"\ntenants: {{t: {{keys_sha256: [{'ab' * 32}], limits: {limits}}}}}\nlimits: {{backends: {{a: {limits}}}}}"
    )
    code, out, _ = run("check", policy_file)
    assert 0 == code
    for whose in ("tenant `t`", "backend `a`"):
        assert f"warning: the limit of {whose} is $5.0000 per day: it {what}, where no price is known" in out
    assert " b," not in out


def test_a_queue_in_which_nobody_ever_waits_is_warned_of(run: Any, tmp_path: Path) -> None:
    """The bound is left to backends that have none."""
    policy = tmp_path / "endless.yaml"
    text = """
        backends: {a: {use: fake, models: [m], %s}}
        routes: {main: {models: [m], targets: [a], admit: {use: fair_queue, limit: null}}}
    """
    warned = []
    for concurrency in ("", "concurrency: 8", "concurrency: {adaptive: {}}"):
        policy.write_text(text % concurrency)
        warned.append("nobody ever waits" in "".join(run("check", policy)[1:]))
    assert [True, False, False] == warned


@pytest.mark.parametrize(
    ("models", "warned"),
    [("[large]", True), ("{large: {price: {input_usd_per_mtok: 1, output_usd_per_mtok: 1}}}", False)],
)
def test_a_shadow_without_a_price_is_warned_of(run: Any, policy_file: Path, models: str, warned: bool) -> None:
    """Its budget cannot be kept, so nothing is copied; its backend is one that is used."""
    policy_file.write_text(
        f"""
        backends: {{a: {{use: fake, models: [small]}}, b: {{use: fake, models: {models}}}}}
        routes: {{r: {{models: ["*"], targets: [a], shadow: {{to: b/large, share: 0.1, usd: 1}}}}}}
        """
    )
    _, out, _ = run("check", str(policy_file))
    assert warned == ("routes.r.shadow: `b/large` has no price, so no request is ever copied" in out)
    assert "backends.b: no route uses it" not in out
