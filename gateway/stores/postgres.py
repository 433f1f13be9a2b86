"""The ledger's tables on a PostgreSQL server, for many replicas: the one place that knows SQLAlchemy and asyncpg.

A connection is made when it is needed and kept while it works. ``connect_timeout_s`` and ``statement_timeout_s`` bound
how long anybody waits for a server that does not answer.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import URL, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from gateway.errors import ConfigurationError
from gateway.stores.ledger_lost import LedgerLost
from gateway.stores.migrations import SCHEMA_VERSION, for_postgres, statements_from
from gateway.stores.row_values import Value

CONNECT_TIMEOUT_S = 5.0
STATEMENT_TIMEOUT_S = 30.0

_SCHEMES = ("postgresql", "postgres", "postgresql+asyncpg")
_LOCK = 4_776_726_163  # any number that nobody else takes for an advisory lock: "headrace" on a telephone's keys
_VERSION_TABLE = "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)"


class PostgresDatabase:
    """Transactions on one server, for one event loop at a time.

    Args:
        address: ``postgresql://user:password@host/database``, with whatever asyncpg understands as query.
        connections: at most so many at once.
    """

    def __init__(self, address: str, *, connections: int = 4) -> None:
        self._url = _read(address)
        self._connections = connections
        self._engine: AsyncEngine | None = None

    @asynccontextmanager
    async def begin(self) -> AsyncIterator["Transaction"]:
        """One transaction: committed when the block ends well.

        Raises:
            LedgerLost: the server is away, or does not take what it is asked.
        """
        try:
            async with self._opened().begin() as connection:
                yield Transaction(connection)
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            raise LedgerLost(_words(error)) from error

    async def prepare(self) -> None:
        """Makes the tables, or brings them up to date; of several replicas one does.

        Raises:
            ConfigurationError: a newer version made them.
            LedgerLost: the server is away.
        """
        async with self.begin() as transaction:
            await transaction.rows("SELECT pg_advisory_xact_lock(:lock)", {"lock": _LOCK})
            await transaction.rows(_VERSION_TABLE)
            version = int((await transaction.rows("SELECT coalesce(max(version), 0) FROM schema_version"))[0][0])
            if version > SCHEMA_VERSION:
                raise ConfigurationError(
                    f"the ledger has version {version}, this is version {SCHEMA_VERSION}",
                    file=self.where,
                    hint="a newer headrace made it: run that one, or choose another database",
                )
            for statement in statements_from(version):
                await transaction.rows(for_postgres(statement))
            if version < SCHEMA_VERSION:
                await transaction.rows("DELETE FROM schema_version")
                await transaction.rows("INSERT INTO schema_version VALUES (:version)", {"version": SCHEMA_VERSION})

    @property
    def where(self) -> str:
        """The address for people, without a password."""
        return self._url.set(drivername="postgresql").render_as_string(hide_password=True)

    async def close(self) -> None:
        """Gives the connections back; idempotent."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.dispose()

    def _opened(self) -> AsyncEngine:
        if self._engine is None:
            self._engine = create_async_engine(
                self._url,
                pool_size=self._connections,
                max_overflow=0,
                pool_timeout=CONNECT_TIMEOUT_S,
                hide_parameters=True,
                connect_args={
                    "timeout": CONNECT_TIMEOUT_S,
                    "command_timeout": STATEMENT_TIMEOUT_S,
                    "server_settings": {"application_name": "headrace"},
                },
            )
        return self._engine


class Transaction:
    """What can be done within one; anything that goes wrong ends it, but for a row in ``each``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def rows(self, statement: str, values: Mapping[str, Value] | None = None) -> list[tuple[Any, ...]]:
        """What the statement answers; nothing, for one that does not."""
        result = await self._connection.execute(text(statement), values or {})
        return [tuple(row) for row in result] if result.returns_rows else []

    async def changed(self, statement: str, values: Mapping[str, Value]) -> int:
        """How many rows the statement has changed."""
        return int((await self._connection.execute(text(statement), values)).rowcount)

    async def each(self, *statements: tuple[str, Sequence[Mapping[str, Value]]]) -> bool:
        """Each statement for each of its rows, sent together; ``False`` where one is refused, and none is in then."""
        try:
            async with self._connection.begin_nested():
                for statement, rows in statements:
                    if rows:
                        await self._connection.execute(text(statement), rows)
        except DBAPIError as error:
            if error.connection_invalidated or isinstance(error, OperationalError | InterfaceError):
                raise
            return False
        return True


class PostgresTables:
    """The ``LedgerTables`` port on a server."""

    def __init__(self, address: str) -> None:
        self._database = PostgresDatabase(address)
        self._prepared = False

    async def rows(self, query: str, **values: Value) -> list[tuple[Any, ...]]:
        """See ``LedgerTables``."""
        await self._prepare()
        async with self._database.begin() as transaction:
            await transaction.rows("SET TRANSACTION READ ONLY")
            return await transaction.rows(query, values)

    async def write(self, *statements: tuple[str, dict[str, Value]]) -> list[int]:
        """See ``LedgerTables``."""
        await self._prepare()
        async with self._database.begin() as transaction:
            return [await transaction.changed(statement, values) for statement, values in statements]

    async def free(self, *statements: tuple[str, dict[str, Value]]) -> list[int]:
        """See ``LedgerTables``: the server's disk is its own affair."""
        return await self.write(*statements)

    async def close(self) -> None:
        """See ``LedgerTables``."""
        await self._database.close()

    async def _prepare(self) -> None:
        if not self._prepared:
            await self._database.prepare()
            self._prepared = True


def _read(address: str) -> URL:
    try:
        url = make_url(address)
    except ArgumentError as error:
        raise ConfigurationError("the ledger's address is none", hint="postgresql://user@host/database") from error
    if url.drivername not in _SCHEMES:
        raise ConfigurationError(
            f"the ledger cannot be kept at `{url.drivername}`", hint="postgresql://user@host/database"
        )
    return url.set(drivername="postgresql+asyncpg")


def _words(error: BaseException) -> str:
    """What the server or the system says; never the values that were sent."""
    cause = getattr(error, "orig", None) or error
    return f"{type(cause).__name__}: {str(cause).splitlines()[0] if str(cause) else ''}".rstrip(": ")
