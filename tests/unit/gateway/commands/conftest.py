"""A policy file and a request on disk, for commands that read them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.__main__ import main

POLICY = """
    backends:
      cheap: {use: fake, models: {small: {context_tokens: 500, price: {input_usd_per_mtok: 1, output_usd_per_mtok: 1}}}}
      dear: {use: fake, models: {small: {price: {input_usd_per_mtok: 9, output_usd_per_mtok: 9}}}}
    routes:
      main: {models: [small, "gpt-*"], targets: [cheap/small, dear/small], cost: [money, decoding]}
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the machine's decides anything."""
    import os

    for name in [name for name in os.environ if name.startswith("HEADRACE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    """Two backends of different prices behind one route."""
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs the command; its exit code, and what it wrote to either stream."""

    def run_(*arguments: object) -> tuple[int, str, str]:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return run_
