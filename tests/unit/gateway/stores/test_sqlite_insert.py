import sqlite3
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.stores.row_values import Value
from gateway.stores.sqlite_insert import BlockInsert

TABLE = "CREATE TABLE t (n INTEGER NOT NULL, a TEXT NOT NULL, b TEXT, c REAL, d BLOB, e INTEGER) STRICT"
INSERT = "INSERT INTO t (n, a, b, c, d, e) VALUES (?, ?, ?, ?, ?, ?)"
ROWS = st.tuples(
    st.integers(-(2**63), 2**63 - 1),
    st.text(st.characters(exclude_categories=["Cs"])) | st.just(""),
    st.none() | st.just("") | st.text("ab"),
    st.none() | st.floats(allow_nan=False),
    st.none() | st.binary(),
    st.none() | st.integers(0, 9),
)


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    """A database with one table."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute(TABLE)
    yield connection
    connection.close()


def _put(insert: BlockInsert, connection: sqlite3.Connection, rows: list[tuple[Value, ...]]) -> None:
    columns: list[Sequence[Value]] = list(zip(*rows, strict=True)) if rows else [()] * 6
    insert.put(connection, columns)


def _kept(connection: sqlite3.Connection) -> list[tuple[Value, ...]]:
    return connection.execute("SELECT * FROM t ORDER BY rowid").fetchall()


@given(batches=st.lists(st.lists(ROWS, max_size=20), max_size=4))
def test_rows_are_kept_as_they_are(batches: list[list[tuple[Value, ...]]]) -> None:
    """In order, whatever is empty in some of them, in all, or was in those before."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute(TABLE)
    insert = BlockInsert(INSERT)
    for batch in batches:
        _put(insert, connection, batch)
    kept = _kept(connection)
    connection.close()
    assert [row for batch in batches for row in batch] == kept


@pytest.mark.parametrize("rows", [1, 7, 8, 63, 64, 200])
def test_any_number_of_rows_goes_in(connection: sqlite3.Connection, rows: int) -> None:
    """By blocks, and what is left over."""
    expected = [(number, "", None, 0.5, b"x", None) for number in range(rows)]
    _put(BlockInsert(INSERT), connection, expected)
    assert expected == _kept(connection)


def test_a_column_that_was_empty_may_be_full_later(connection: sqlite3.Connection) -> None:
    """And empty again."""
    rows: list[tuple[Value, ...]] = [(1, text, None, 0.5, None, number) for text, number in (("", None), ("x", 2)) * 2]
    insert = BlockInsert(INSERT)
    for row in rows:
        _put(insert, connection, [row])
    assert rows == _kept(connection)


@pytest.mark.parametrize("columns", [[(1,)] * 5, [(1,)] * 7, [(1, 2), *[("a",)] * 5]])
def test_columns_that_do_not_fit_are_refused(connection: sqlite3.Connection, columns: list[Sequence[Value]]) -> None:
    """Too few, too many, or of different length: no value gets into another row or column."""
    with pytest.raises(ValueError, match=r"values|argument"):
        BlockInsert(INSERT).put(connection, columns)
    assert [] == _kept(connection)


def test_no_rows_are_no_statement(connection: sqlite3.Connection) -> None:
    """As of a batch of requests that were all refused before there was an attempt."""
    said: list[str] = []
    connection.set_trace_callback(said.append)
    BlockInsert(INSERT).put(connection, [()])
    assert [] == said
