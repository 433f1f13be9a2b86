"""What the ledger hands finished requests to, off the request path."""

from collections.abc import Sequence
from typing import Protocol

from gateway.types import LedgerEntry


class EntrySink(Protocol):
    """Makes something of finished requests: metrics, spans, rows."""

    def take(self, batch: Sequence[LedgerEntry]) -> None:
        """Takes entries that hold no prompt, no answer and no upstream's words. On the event loop: quick, no I/O."""
        ...

    async def close(self) -> None:
        """Finishes what was taken and gives back everything; idempotent, and bounded in time."""
        ...
