"""What ``/metrics`` shows: counters, of this process or of all its siblings, and the present moment as gauges."""

from collections.abc import Callable
from pathlib import Path

from gateway.fleet.fleet import Fleet
from gateway.ledger.ledger import EntryLedger
from gateway.pipeline import Pipeline
from gateway.process.worker_line import Assignment
from gateway.stores.shared_state import SharedState
from gateway.stores.sql import SqlLedger
from gateway.telemetry.live_gauges import BackendState, Live
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.sibling_metrics import SiblingMetrics


def live(
    pipeline: Callable[[], Pipeline],
    *,
    fleet: Fleet,
    ledger: Callable[[], EntryLedger],
    rows: SqlLedger | None,
    shared: SharedState,
) -> Live:
    """The gauges; what is given as a function is asked for at each scrape, since it is made later or replaced."""
    return Live(
        in_flight=lambda: pipeline().running,
        queued=lambda: sum(getattr(admitter, "waiting", 0) for admitter in pipeline().rules.world.admitters().values()),
        backends=lambda: [
            BackendState(
                name=name,
                up=(facts := backend.facts()).down is None,
                in_flight=fleet.in_flight[name],
                rests=fleet.cooling(name, facts) is not None,
                limit=found.now if (found := fleet.limit(name, facts)) is not None else None,
            )
            for name, backend in pipeline().rules.world.backends.items()
        ],
        dropped=lambda: {"handed_over": ledger().dropped, "rows": rows.dropped if rows else 0},
        spooled=lambda: rows.waiting if rows else 0,
        observer_failures=lambda: ledger().observer_failures,
        shared_lost=shared.lost,
        shared_dropped=shared.dropped,
        canaries=shared.steering.trials,
    )


class Scrape:
    """The page's content.

    Args:
        metrics: What this process counts.
        present: The present moment, of the process.
        flush: Has all that is over counted.
        assignment: Where this is one of several workers: any of them answers for all.
    """

    def __init__(
        self, metrics: Metrics, present: Live, flush: Callable[[], object], assignment: Assignment | None
    ) -> None:
        self._metrics = metrics
        self._flush = flush
        self._siblings: SiblingMetrics | None = None
        if assignment is not None:
            run_dir = Path(assignment.run_dir)
            self._siblings = SiblingMetrics(metrics, present, run_dir=run_dir, worker=assignment.worker)

    def start(self) -> None:
        """Shows the siblings what there is here."""
        if self._siblings is not None:
            self._siblings.start()

    async def close(self) -> None:
        """Leaves them; idempotent."""
        if self._siblings is not None:
            await self._siblings.close()

    def render(self, accept: str) -> tuple[bytes, str]:
        """The text, and its type, for a scraper that accepts these types."""
        self._flush()
        return (self._siblings or self._metrics).render(accept)
