"""The present moment of a gateway as its gauges show it, put together for ``/metrics``."""

from collections.abc import Callable

from gateway.fleet.fleet import Fleet
from gateway.ledger.ledger import EntryLedger
from gateway.pipeline import Pipeline
from gateway.stores.shared_state import SharedState
from gateway.stores.sql import SqlLedger
from gateway.telemetry.live_gauges import BackendState, Live


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
