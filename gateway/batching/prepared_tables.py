"""The tables of files and batches, made when somebody first asks for them."""

from typing import Any

from gateway.errors import ConfigurationError
from gateway.stores.row_values import Value
from gateway.stores.tables import LedgerTables, Statement


class PreparedTables:
    """The ``LedgerTables`` port over another: where there is no database yet, or none any more, asking makes one."""

    def __init__(self, tables: LedgerTables) -> None:
        self._tables = tables
        self._prepared = False

    async def rows(self, query: str, **values: Value) -> list[tuple[Any, ...]]:
        """See ``LedgerTables``."""
        if not self._prepared:
            await self._tables.write()
            self._prepared = True
        try:
            return await self._tables.rows(query, **values)
        except ConfigurationError:
            self._prepared = False
            raise

    async def write(self, *statements: Statement) -> list[int]:
        """See ``LedgerTables``."""
        return await self._tables.write(*statements)

    async def free(self, *statements: Statement) -> list[int]:
        """See ``LedgerTables``."""
        return await self._tables.free(*statements)

    async def close(self) -> None:
        """See ``LedgerTables``."""
        await self._tables.close()
