"""The kinds of database that a ledger may live in."""

from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def ledger_place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Where a new ledger is to be: a file, or a database on a real server."""
    if request.param == "sqlite":
        return tmp_path / "ledger.sqlite3"
    return str(request.getfixturevalue("postgres").new_database())
