"""What the ledger hands finished requests to, off the request path."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol, runtime_checkable

from gateway.types import LedgerEntry


class EntrySink(Protocol):
    """Makes something of finished requests: metrics, spans, rows."""

    def take(self, batch: Sequence[LedgerEntry]) -> None:
        """Takes entries that hold no prompt, no answer and no upstream's words. On the event loop: quick, no I/O.

        Raises:
            ExceptionGroup: with an error for each entry that it could not take; it has taken the others.
        """
        ...

    async def close(self) -> None:
        """Finishes what was taken and gives back everything; idempotent, and bounded in time."""
        ...


@runtime_checkable
class PromptSink(EntrySink, Protocol):
    """A sink that takes entries in the turn of the event loop in which their requests ended, and makes them last."""

    at_once: ClassVar[bool]


def take_each(batch: Sequence[LedgerEntry], take: Callable[[LedgerEntry], object]) -> None:
    """Gives each entry to ``take``: one that it cannot take must not cost the others.

    Raises:
        ExceptionGroup: when all have had their turn, with what was raised.
    """
    errors: list[Exception] = []
    for entry in batch:
        try:
            take(entry)
        except Exception as error:  # noqa: BLE001  # raised below, all together
            errors.append(error)
    if errors:
        raise ExceptionGroup("entries that could not be taken", errors)
