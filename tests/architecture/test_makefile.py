"""The Makefile is the first thing that a newcomer types."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TARGETS = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


def _make(*arguments: str) -> str:
    return subprocess.run(
        ["make", "--no-print-directory", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


def test_make_alone_lists_every_target_with_its_comment() -> None:
    """Nothing is run or installed by it."""
    listed = dict(re.findall(r"^make ([a-z]+) +(\S.*)$", _make(), re.MULTILINE))
    assert TARGETS == list(listed)
    assert "help" == TARGETS[0]
    assert "default model" in listed["serve"]


def test_serving_installs_only_what_serving_needs() -> None:
    """The tools of developers come with the first of their own targets."""
    serving = _make("--dry-run", "--always-make", "serve")
    assert "'.[engine]'" in serving
    assert "--group dev" not in serving
    assert "llama-cpp" not in serving


@pytest.mark.parametrize("target", ["test", "quick", "fix", "bench", "soak", "peers", "clients", "references"])
def test_what_developers_run_installs_their_tools(target: str) -> None:
    """On top of what serving needs."""
    assert "'.[engine,guards,judges,llama-cpp]' --group dev" in _make("--dry-run", "--always-make", target)


@pytest.mark.parametrize("script", ["overhead", "soak", "installed_peers"])
def test_the_benchmarks_that_it_names_are_there(script: str) -> None:
    """A target without its script would be found out only by whoever runs it."""
    assert f"tests/benchmarks/{script}.py" in (ROOT / "Makefile").read_text()
    assert (ROOT / f"tests/benchmarks/{script}.py").is_file()
