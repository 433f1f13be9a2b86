"""What routes that keep answers did with them, as counters: by route."""

from prometheus_client import CollectorRegistry

from gateway.telemetry.tallies import Tally
from gateway.types import LedgerEntry


class CacheTallies:
    """Counts the requests of such routes, and what hits did not cost."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Tally(
            registry, "headrace_cache_requests", "Requests of routes that keep answers.", ("route", "result")
        )
        self._saved_usd = Tally(
            registry, "headrace_cache_saved_usd", "US dollars that kept answers did not cost again.", ("route",)
        )

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """All of them."""
        return self._requests, self._saved_usd

    def count(self, entry: LedgerEntry, route: str) -> None:
        """Counts one, under its route's label."""
        self._requests.add((route, entry.cache))
        if entry.saved_usd is not None:
            self._saved_usd.add((route,), max(float(entry.saved_usd), 0.0))
