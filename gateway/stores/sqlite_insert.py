"""Puts many rows into a table of SQLite by blocks, a statement for each.

With every statement Python's lock goes to and fro between this thread and the event loop's, which would cost more than
the writing; and each value that is handed over costs as much as to write it. Most columns are empty in all rows that a
gateway writes: tasks that nobody names, caches that there are none of. What has been empty so far stands in the
statement.
"""

import sqlite3
from collections.abc import Sequence
from itertools import chain

from gateway.stores.row_values import Value

_BLOCKS_ROWS = (64, 8, 1)
# sqlite3 looks for an adapter of every None and all bytes, and makes an error of it each time that there is none. These
# change nothing, and are found at once.
sqlite3.register_adapter(bytes, bytes)
sqlite3.register_adapter(type(None), {None: None}.get)


class BlockInsert:
    """Puts in rows as ``insert`` does one: ``INSERT INTO ... VALUES (?, ?, ...)``."""

    def __init__(self, insert: str) -> None:
        self._head, values = insert.split(" VALUES ")
        self._width = values.count("?")
        self._empty: dict[int, Value] | None = None
        self._statements: dict[int, str] = {}

    def put(self, connection: sqlite3.Connection, columns: Sequence[Sequence[Value]]) -> None:
        """Puts in rows that are given column by column.

        Raises:
            sqlite3.Error: a row is bad; some may be in.
            ValueError: there are more columns than the statement has, or fewer, or of different length.
        """
        if not columns[0]:  # of no rows it is not known how many columns they have
            return
        if len(columns) != self._width:
            raise ValueError(f"{len(columns)} values for {self._width} columns")
        empty = self._still_empty(columns)
        bound = zip(*[column for place, column in enumerate(columns) if place not in empty], strict=True)
        values, rows, width = list(chain.from_iterable(bound)), len(columns[0]), self._width - len(empty)
        at = 0
        for block in _BLOCKS_ROWS:
            statement = self._statements.get(block) or self._statement(block)
            while rows - at >= block:
                connection.execute(statement, values[at * width : (at + block) * width])
                at += block

    def _still_empty(self, columns: Sequence[Sequence[Value]]) -> dict[int, Value]:
        """What is in the columns that have been empty in all rows, and are in these: NULL, or a text without any."""
        if self._empty is None:
            self._empty = {place: column[0] for place, column in enumerate(columns) if column[0] in {None, ""}}
        full = [place for place, value in self._empty.items() if columns[place].count(value) < len(columns[place])]
        for place in full:
            del self._empty[place]
        if full:
            self._statements.clear()
        return self._empty

    def _statement(self, block: int) -> str:
        literals = {place: "NULL" if value is None else "''" for place, value in (self._empty or {}).items()}
        row = f"({', '.join([literals.get(place, '?') for place in range(self._width)])})"
        made = self._statements[block] = f"{self._head} VALUES {', '.join([row] * block)}"
        return made
