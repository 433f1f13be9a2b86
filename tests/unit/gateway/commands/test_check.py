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
        f"{policy_file}: fine, 2 backends, 1 routes",
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
    assert "SET_KEY" not in out.replace("UNSET_KEY", "")
    assert "sk-value" not in out


def test_with_keys_any_address_will_do(run: Any, policy_file: Path) -> None:
    """The remark about loopback addresses is for open houses."""
    policy_file.write_text(f"backends: {{a: {{use: fake}}}}\ntenants: {{t: {{keys_sha256: [{'ab' * 32}]}}}}")
    assert "loopback" not in run("check", policy_file)[1]
