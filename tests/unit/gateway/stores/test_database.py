from contextlib import closing
from pathlib import Path

from gateway.stores.database import CACHE_KIB, open_database


def test_a_connection_keeps_few_pages(tmp_path: Path) -> None:
    """Each connection of a process may keep as much: the limit is ours, and half of what SQLite's own would be."""
    with closing(open_database(tmp_path / "ledger.sqlite3")) as connection:
        assert (-CACHE_KIB,) == connection.execute("PRAGMA cache_size").fetchone()
    assert 1024 == CACHE_KIB
