"""What is kept in the state directory over restarts: the ledger's rows, and what policies have learned."""

from collections.abc import Callable, Iterable

from gateway.learning.learning import Learning
from gateway.ports import Clock, Learner, Shared
from gateway.settings import Settings
from gateway.stores.ledger_place import ledger_place
from gateway.stores.sql import SPOOL_FOLDER, SqlLedger
from gateway.stores.tables import LedgerTables, open_tables

LEARNED_FOLDER = "learned"

SECONDS_PER_DAY = 86_400


def open_rows(settings: Settings) -> SqlLedger | None:
    """The ledger's rows; ``None`` where none are to be kept."""
    if settings.ledger == "off":
        return None
    return SqlLedger(
        ledger_place(settings),
        spool=settings.state_dir / SPOOL_FOLDER,
        spool_bytes=settings.ledger_spool_bytes,
        capacity=settings.ledger_rows_waiting,
        keep_s=settings.ledger_days * SECONDS_PER_DAY,
        keep_decisions=settings.ledger_decisions,
    )


def open_tables_of(settings: Settings) -> LedgerTables | None:
    """The ledger's tables besides those rows, which others read, too; ``None`` where none is kept.

    Raises:
        ConfigurationError: the extra ``postgres`` is not installed, or the address is none.
    """
    return None if settings.ledger == "off" else open_tables(ledger_place(settings))


def open_learning(
    settings: Settings, learners: Callable[[], Iterable[Learner]], *, shared: Shared, clock: Clock
) -> Learning:
    """What the learners of the present world have learned; nothing is read yet."""
    return Learning(settings.state_dir / LEARNED_FOLDER, shared=shared, clock=clock, learners=learners)
