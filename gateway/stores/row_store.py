"""The port to a database that keeps the ledger's rows."""

from collections.abc import Sequence
from typing import Protocol

from gateway.stores.spool import Batch


class RowStore(Protocol):
    """Puts rows in. For one thread, which may wait."""

    def prepare(self) -> None:
        """Makes the tables, or brings them up to date.

        Raises:
            ConfigurationError: that cannot be, and no waiting helps.
            LedgerLost: the database is away.
        """
        ...

    def write(self, batch: Batch, *, forget: Sequence[str] = ()) -> int:
        """Puts all of the batch in, once, whatever happened to an earlier try; how many requests it could not take.

        With it goes how much of the spool's file is written, of which ``forget`` names those that are gone.

        Raises:
            LedgerLost: nothing was written, or nobody knows; it can be tried again.
        """
        ...

    def close(self) -> None:
        """Gives the connection back; idempotent."""
        ...
