from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.__main__ import main
from gateway.stores.sql import SqlLedger


@pytest.fixture
async def ledger(tmp_path: Path, make_entry: Any) -> Path:
    """The file of a ledger with two requests."""
    rows = SqlLedger(tmp_path / "ledger.sqlite3")
    rows.start()
    rows.take([make_entry(1), make_entry(2)])
    await rows.close()
    return tmp_path / "ledger.sqlite3"


def test_a_report_is_printed_in_the_format_that_is_asked_for(
    ledger: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A table by default, CSV, or JSON; and a picture beside it."""
    assert 0 == main(["report", "--ledger", str(ledger), "--by", "backend", "--chart", str(tmp_path / "r.svg")])
    assert "groq" in capsys.readouterr().out
    assert (tmp_path / "r.svg").read_text().startswith("<?xml")
    assert 0 == main(["report", "--ledger", str(ledger), "--format", "csv"])
    assert capsys.readouterr().out.startswith("requests,served,")
    assert 0 == main(["report", "--ledger", str(ledger), "--format", "json", "--since", "2023-11-15"])
    assert 0 == msgspec.json.decode(capsys.readouterr().out)["total"]["requests"]


def test_a_reconciliation_ends_with_3_where_anything_differs(
    ledger: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """So that a script at the month's end knows."""
    columns, usage = tmp_path / "columns.yaml", tmp_path / "usage.csv"
    columns.write_text("{day: day, model: model, requests: n}")
    command = ["report", "--ledger", str(ledger), "--reconcile", str(usage), "--columns", str(columns)]
    usage.write_text("day,model,n\n2023-11-14,llama,2\n")
    assert 0 == main(command)
    usage.write_text("day,model,n\n2023-11-14,llama,3\n")
    assert 3 == main([*command, "--format", "json"])
    assert "requests" == msgspec.json.decode(capsys.readouterr().out.splitlines()[-1])["differences"][0]["kind"]


def test_advice_is_printed_for_people_or_programs(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where time and money go, and that two requests support no change."""
    assert 0 == main(["advise", "--ledger", str(ledger)])
    text = capsys.readouterr().out
    assert "groq" in text
    assert text.endswith("What the ledger supports:\n  no change\n")
    assert 0 == main(["advise", "--ledger", str(ledger), "--format", "json"])
    assert [] == msgspec.json.decode(capsys.readouterr().out)["advice"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--by", "colour"], "'colour' is none of"),
        (["--since", "yesterday"], "must be a day or a moment"),
        (["--format", "xls"], "invalid choice"),
    ],
)
def test_what_cannot_be_reported_is_said(
    ledger: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """As wrong usage."""
    with pytest.raises(SystemExit) as caught:
        main(["report", "--ledger", str(ledger), *arguments])
    assert 2 == caught.value.code
    assert words in capsys.readouterr().err


def test_a_ledger_that_is_not_there_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """As a fault of the configuration."""
    assert 1 == main(["report", "--ledger", str(tmp_path / "nothing.sqlite3")])
    assert "there is no ledger" in capsys.readouterr().err
