import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.__main__ import main


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    """One number in one place."""
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert (0, f"headrace {importlib.metadata.version('headrace')}\n") == (stop.value.code, capsys.readouterr().out)


@pytest.mark.parametrize("arguments", [["nonsense"], ["check"], ["explain", "one"], ["serve", "--port", "x"]])
def test_wrong_usage_is_2_with_the_usage_beside_it(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """An unknown command, or one that lacks what it needs."""
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    out, err = capsys.readouterr()
    assert (2, "") == (stop.value.code, out)
    assert err.startswith("usage: headrace")


@pytest.mark.parametrize(("arguments", "words"), [([], "usage: headrace [-h]"), (["model"], "usage: headrace model")])
def test_without_a_command_there_is_help(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    """Who types the name alone wants to know what it can do."""
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    out, err = capsys.readouterr()
    assert (0, "", True) == (stop.value.code, err, out.startswith(words))


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Those that live outside the kernel too."""
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    for command in ("serve", "check", "explain", "plugins", "model"):
        assert f"\n    {command} " in out
    assert "\n    model     pull, list or show models\n" in out


def test_a_command_of_another_package_gets_its_arguments_and_the_models_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """``headrace model list`` runs in the engine's package, on the folder that the settings name."""
    monkeypatch.setenv("HEADRACE_MODEL_DIR", str(tmp_path))
    assert 0 == main(["model", "list"])
    assert "Traceback" not in capsys.readouterr().err


def test_a_wrong_environment_is_1_and_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """For every command that reads it."""
    monkeypatch.setenv("HEADRACE_PROT", "8080")
    policy = tmp_path / "policy.yaml"
    policy.write_text("backends: {a: {use: fake}}")
    for arguments in (["serve", str(policy)], ["check", str(policy)], ["model", "list"]):
        assert 1 == main(arguments)
        assert capsys.readouterr().err.startswith("headrace: HEADRACE_PROT is no setting")


def test_serve_refuses_to_be_reached_from_elsewhere_without_keys(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything listens."""
    monkeypatch.setattr("gateway.telemetry.logs.configure", lambda *_, **__: None)
    policy = tmp_path / "policy.yaml"
    policy.write_text("backends: {a: {use: fake}}")
    assert 1 == main(["serve", str(policy), "--host", "0.0.0.0"])  # noqa: S104  # refused
    assert "no tenant has a key" in capsys.readouterr().err


def test_the_module_is_the_command() -> None:
    """``python -m gateway`` is ``headrace``."""
    command = [sys.executable, "-m", "gateway", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # our own arguments
    assert done.stdout.startswith("headrace ")


def test_a_reader_that_has_seen_enough_is_no_mistake() -> None:
    """``headrace plugins | head -1`` says nothing but the first line."""
    command = [sys.executable, "-m", "gateway", "plugins"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        told = process.stderr.read()
    assert (b"", 0) == (told, process.returncode)
