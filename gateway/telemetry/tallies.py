"""A counter and a histogram for one thread: a dictionary that Prometheus reads when it scrapes.

The client library's own instruments take a lock and look their labels up on every use, which is four times the work;
entries are counted on the event loop alone, and so is the scrape.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

Total = tuple[tuple[str, ...], float]
"""Labels of a counter, and how much it has counted."""
Distribution = tuple[tuple[str, ...], tuple[int, ...], float]
"""Labels of a histogram, how many values are in each bucket alone, and their sum."""


class Tally(Collector):
    """A counter with labels. Series appear when they are first counted; the caller keeps labels bounded."""

    def __init__(self, registry: CollectorRegistry, name: str, meaning: str, labels: Sequence[str]) -> None:
        self.name, self._meaning, self._labels = name, meaning, labels
        self._totals: dict[tuple[str, ...], float] = {}
        registry.register(self)

    def add(self, labels: tuple[str, ...], amount: float = 1.0) -> None:
        """Counts ``amount``, which is not negative."""
        self._totals[labels] = self._totals.get(labels, 0.0) + amount

    def series(self) -> list[Total]:
        """All series; ``add`` takes each of them."""
        return list(self._totals.items())

    def describe(self) -> Iterator[CounterMetricFamily]:
        """The family without its series, so that the registry can refuse a second of the same name."""
        yield CounterMetricFamily(self.name, self._meaning, labels=self._labels)

    def collect(self) -> Iterator[CounterMetricFamily]:
        """The family with all its series."""
        family = CounterMetricFamily(self.name, self._meaning, labels=self._labels)
        for labels, total in self._totals.items():
            family.add_metric(labels, total)
        yield family


class Spread(Collector):
    """A histogram with labels. ``bounds`` are the buckets' inclusive upper ends, ascending, without infinity."""

    def __init__(
        self, registry: CollectorRegistry, name: str, meaning: str, labels: Sequence[str], bounds: Sequence[float]
    ) -> None:
        self.name, self._meaning, self._labels = name, meaning, labels
        self._bounds = tuple(bounds)
        self._ends = [*(str(float(bound)) for bound in bounds), "+Inf"]
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}
        registry.register(self)

    def add(self, labels: tuple[str, ...], value: float) -> None:
        """Puts ``value`` into its bucket."""
        self.add_each(labels, (value,))

    def add_each(self, labels: tuple[str, ...], values: Sequence[float]) -> None:
        """Puts each of ``values`` into its bucket; one that is negative counts as zero."""
        if min(values) < 0:
            values = [max(value, 0.0) for value in values]
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * len(self._ends)
        bounds = self._bounds
        for value in values:
            counts[bisect_left(bounds, value)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + sum(values)

    def series(self) -> list[Distribution]:
        """All series; ``add_all`` takes each of them."""
        return [(labels, tuple(counts), self._sums[labels]) for labels, counts in self._counts.items()]

    def add_all(self, labels: tuple[str, ...], counts: Sequence[int], total: float) -> None:
        """Adds what another of the same bounds has counted, bucket by bucket, and the sum of its values."""
        mine = self._counts.get(labels, [0] * len(self._ends))
        self._counts[labels] = [ours + theirs for ours, theirs in zip(mine, counts, strict=True)]
        self._sums[labels] = self._sums.get(labels, 0.0) + total

    def describe(self) -> Iterator[HistogramMetricFamily]:
        """The family without its series, so that the registry can refuse a second of the same name."""
        yield HistogramMetricFamily(self.name, self._meaning, labels=self._labels)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The family with all its series, buckets cumulative as the exposition wants them."""
        family = HistogramMetricFamily(self.name, self._meaning, labels=self._labels)
        for labels, counts in self._counts.items():
            running = 0
            buckets: list[tuple[str, float]] = []
            for end, count in zip(self._ends, counts, strict=True):
                running += count
                buckets.append((end, running))
            family.add_metric(labels, buckets, self._sums[labels])
        yield family
