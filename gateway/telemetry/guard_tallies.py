"""What guards decided and how long they took, by guard: names of the policy file."""

from prometheus_client import CollectorRegistry

from gateway.telemetry.tallies import Spread, Tally
from gateway.types import LedgerEntry

GUARD_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
FAILED = "failed_"
"""Before the action that ``on_error`` chose for a guard that could not say."""


class GuardTallies:
    """Counts what each guard did with each request."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._decisions = Tally(
            registry, "headrace_guard_decisions", "Looks of guards, by what came of them.", ("guard", "stage", "action")
        )
        self._seconds = Spread(
            registry,
            "headrace_guard_seconds",
            "What a look took, its service included.",
            ("guard", "stage"),
            GUARD_SECONDS,
        )

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """The counters."""
        return (self._decisions,)

    @property
    def spreads(self) -> tuple[Spread, ...]:
        """The histograms."""
        return (self._seconds,)

    def count(self, entry: LedgerEntry) -> None:
        """Counts one request's."""
        for mark in entry.guards:
            action = f"{FAILED if mark.failed else ''}{mark.action}"
            self._decisions.add((mark.guard, mark.stage.value, action))
            self._seconds.add((mark.guard, mark.stage.value), mark.took_s)
