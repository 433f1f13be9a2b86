"""The ledger's tables for whoever asks or adds to them: SQLite's file or a PostgreSQL server, with one set of queries.

Rows of requests and attempts are written by the sink of the ledger, in batches. What comes with a call of its own (a
verdict on a task) is written here. Which tables there are and how to add one: ``gateway.stores.migrations``.

A query is one constant string that both databases take:

* Values are named, ``:since_unix_s``, and given as keyword arguments; they are never put into the text. One that may be
  NULL, or stands where no column tells its type, goes into a ``CAST(:since_unix_s AS DOUBLE PRECISION)``, ``AS BIGINT``
  or ``AS TEXT``: PostgreSQL asks for its type, and SQLite understands the words.
* The same in both: ``coalesce``, ``CASE``, ``count(*) FILTER (WHERE ...)``, ``WITH``, window functions, ``floor``,
  ``RETURNING``, and ``INSERT ... ON CONFLICT (...) DO UPDATE SET x = excluded.x``. Whole numbers divide to whole ones.
* ``sum`` and ``round`` of whole numbers stand in ``CAST(... AS BIGINT)``: PostgreSQL makes decimals of them. A day is
  ``CAST(floor(received_unix_s / 86400) AS BIGINT)``; a bare cast would round there and cut off here.
* ``sum`` of pico-dollars overflows at 9.2 million dollars: where more may come together, sum
  ``cost_pico_usd / 1000000`` and ``cost_pico_usd % 1000000`` apart.
* What belongs to one of the two is not used: ``::``, ``?``, ``ifnull``, ``strftime``, ``date_trunc``, JSON functions,
  ``percentile_cont``. Percentiles are made of the rows, or with ``row_number()``.
"""

from pathlib import Path
from typing import Any, Protocol

from gateway.errors import ConfigurationError
from gateway.stores.row_values import Value
from gateway.stores.sqlite_tables import SqliteTables

Statement = tuple[str, dict[str, Value]]


class LedgerTables(Protocol):
    """The tables of this version. Safe between the tasks of one loop."""

    async def rows(self, query: str, **values: Value) -> list[tuple[Any, ...]]:
        """What the query answers.

        Raises:
            ConfigurationError: there is no ledger, it is damaged, or of another version.
            LedgerLost: the database is away, busy or does not take the query.
        """
        ...

    async def write(self, *statements: Statement) -> list[int]:
        """Does all of the statements or none; how many rows each has changed.

        Raises:
            ConfigurationError: as above.
            LedgerLost: as above; where the connection broke at the end, it may have been done.
        """
        ...

    async def free(self, *statements: Statement) -> list[int]:
        """The same for what only takes away: it works on a disk that is full, too, where room is held back for it.

        Raises:
            ConfigurationError: as above.
            LedgerLost: as above.
        """
        ...

    async def close(self) -> None:
        """Gives back everything; idempotent."""
        ...


def open_tables(where: Path | str, *, spare_bytes: int = 0) -> LedgerTables:
    """The tables of the ledger at ``where``, a file or a PostgreSQL server's address; connects with the first question.

    Beside a file, ``spare_bytes`` of the disk are held back from the first statement on, for ``free``.

    Raises:
        ConfigurationError: the extra ``postgres`` is not installed, or the address is none.
    """
    if isinstance(where, Path):
        return SqliteTables(where, spare_bytes=spare_bytes)
    try:
        from gateway.stores.postgres import PostgresTables  # noqa: PLC0415  # an extra, and 20 MB of memory
    except ModuleNotFoundError as error:
        hint = "pip install 'headrace[postgres]'"
        raise ConfigurationError(f"a ledger on PostgreSQL needs {error.name}", hint=hint) from error
    return PostgresTables(where)
