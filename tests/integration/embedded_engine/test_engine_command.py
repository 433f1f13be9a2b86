from pathlib import Path

import msgspec
import pytest

from embedded_engine.engine_command import Bench, main

pytestmark = pytest.mark.model


def test_a_model_is_measured(default_model_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON, with curves that rise."""
    assert 0 == main(["bench", str(default_model_path), "--json", "--threads", "1", "--context-tokens", "512"])
    bench = msgspec.json.decode(capsys.readouterr().out, type=Bench)
    verify = [point.seconds for point in bench.ready.verify_costs]
    assert [1, 2] == [point.rows for point in bench.ready.verify_costs][:2]
    assert verify[-1] > verify[0] > 0
    assert [1, 4, 8] == [one.streams for one in bench.decode]
    assert bench.prompt_tokens_per_s > 0


def test_a_model_that_is_not_there_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And exit code 1."""
    assert 1 == main(["bench", "--dir", str(tmp_path)])
    assert capsys.readouterr().err.startswith("headrace engine: ")
