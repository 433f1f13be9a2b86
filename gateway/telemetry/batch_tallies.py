"""What became of batches and their lines, as counters. The lines' requests are counted like all others besides."""

from prometheus_client import CollectorRegistry

from gateway.telemetry.tallies import Tally


class BatchTallies:
    """Counts by status, and by outcome: both are small sets."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._batches = Tally(registry, "headrace_batches", "Batches that came to a status.", ("status",))
        self._lines = Tally(registry, "headrace_batch_lines", "Lines of batches that ended.", ("outcome",))

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """All of them."""
        return self._batches, self._lines

    def batch(self, status: str) -> None:
        """A batch is in another status now."""
        self._batches.add((status,))

    def lines(self, outcome: str, count: int = 1) -> None:
        """Lines have their result."""
        self._lines.add((outcome,), count)
