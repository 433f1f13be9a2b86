from pathlib import Path

import pytest

from embedded_engine.command import main
from embedded_engine.known_models import DEFAULT_MODEL


def test_list_shows_what_could_be_pulled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty cache is a beginning, not an error."""
    assert 0 == main(["list"], model_dir=tmp_path)
    assert DEFAULT_MODEL in capsys.readouterr().out


def test_show_tells_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its path."""
    (tmp_path / "mine.gguf").write_bytes(b"GGUF")
    assert 0 == main(["show", str(tmp_path / "mine.gguf")], model_dir=tmp_path)
    assert str(tmp_path / "mine.gguf") in capsys.readouterr().out


def test_a_mistake_is_one_sentence_and_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No traceback."""
    assert 1 == main(["show", "--dir", str(tmp_path)])
    assert f"headrace model pull {DEFAULT_MODEL}" in capsys.readouterr().err
    assert 1 == main(["pull", "nonsense", "--dir", str(tmp_path)])
    assert capsys.readouterr().err.startswith("headrace model: there is no model 'nonsense'")
