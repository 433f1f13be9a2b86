"""The statements that write the ledger's rows, in the words that SQLite and PostgreSQL share."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

LAST_SEQ = "SELECT coalesce(max(seq), 0) FROM requests"
NEWEST_UNIX_S = "SELECT max(received_unix_s) FROM requests"

SPOOL_POSITION = "SELECT position FROM spools WHERE name = :name"
SPOOL_WRITTEN = """
    INSERT INTO spools (name, position, written_unix_s) VALUES (:name, :position, :written_unix_s)
    ON CONFLICT (name) DO UPDATE SET position = excluded.position, written_unix_s = excluded.written_unix_s
"""
FORGET_SPOOL = "DELETE FROM spools WHERE name = :name"

_OLDEST = "SELECT seq FROM requests WHERE received_unix_s < :before_unix_s ORDER BY received_unix_s, seq LIMIT :most"
DELETE_OLD = (
    f"DELETE FROM attempts WHERE request_seq IN ({_OLDEST})",  # noqa: S608  # constants of this page
    f"DELETE FROM requests WHERE seq IN ({_OLDEST})",  # noqa: S608  # likewise
    "DELETE FROM spools WHERE name IN (SELECT name FROM spools WHERE written_unix_s < :before_unix_s LIMIT :most)",
)
"""What takes the oldest out, attempts before their requests, at most so many requests at once."""


class Inserts(NamedTuple):
    """One row into ``requests``, its ``seq`` first, and one into ``attempts``, its ``request_seq`` first."""

    request: str
    attempt: str


@lru_cache(maxsize=16)
def inserts_of(request_columns: Sequence[str], attempt_columns: Sequence[str]) -> Inserts:
    """The statements for rows that have these columns."""
    return Inserts(
        _insert("requests", ("seq", *request_columns)), _insert("attempts", ("request_seq", *attempt_columns))
    )


class NamedInserts(NamedTuple):
    """The same with named values, and what those are called."""

    request: str
    attempt: str
    request_columns: Sequence[str]
    attempt_columns: Sequence[str]


@lru_cache(maxsize=16)
def named_inserts_of(request_columns: Sequence[str], attempt_columns: Sequence[str]) -> NamedInserts:
    """The statements for rows that have these columns."""
    requests, attempts = ("seq", *request_columns), ("request_seq", *attempt_columns)
    return NamedInserts(_named_insert("requests", requests), _named_insert("attempts", attempts), requests, attempts)


def _named_insert(table: str, columns: Sequence[str]) -> str:
    names, marks = ", ".join(columns), ", ".join(f":{name}" for name in columns)
    return f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608  # names that the spool has checked


def _insert(table: str, columns: Sequence[str]) -> str:
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    return f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608  # names that the spool has checked
