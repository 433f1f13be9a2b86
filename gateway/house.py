"""What pages besides inference look into."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.attempt.trial import Bench
from gateway.door import Door
from gateway.ledger.ledger import EntryLedger
from gateway.pipeline import Pipeline
from gateway.ports import Clock
from gateway.rules.world import World
from gateway.settings import Settings
from gateway.stores.responses import ResponseMemory
from gateway.stores.sql import SqlLedger
from gateway.stores.tables import LedgerTables
from gateway.task import VerdictObserver
from gateway.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """A gateway as it is. ``rows`` and ``tables`` are ``None`` where no ledger is kept.

    ``open_paths`` are the endpoints that answer without a tenant's key, by path. ``observers`` hear of verdicts, and
    ``success`` tells what was learned from them, by route.
    """

    settings: Settings
    pipeline: Pipeline
    bench: Bench
    ledger: EntryLedger
    rows: SqlLedger | None
    tables: LedgerTables | None
    metrics: Metrics
    responses: ResponseMemory
    open_paths: Mapping[str, Callable[..., Any]]
    observers: Callable[[], Sequence[VerdictObserver]]
    success: Callable[[], Mapping[str, Any]]
    started_unix_s: int

    @property
    def clock(self) -> Clock:
        """The gateway's."""
        return self.bench.clock

    def world(self) -> World:
        """As it is now."""
        return self.pipeline.rules.world

    def door(self) -> Door:
        """As it is now."""
        return self.pipeline.rules.door
