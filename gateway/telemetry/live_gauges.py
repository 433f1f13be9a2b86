"""What is true at the moment of a scrape: asked for then, and kept nowhere."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gateway.telemetry.label_names import LabelNames


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendState:
    """One backend as it is now. ``up`` means that it takes requests; one that rests, or is left alone, gets none.

    ``limit`` is how many at once it has been found to take well; ``None`` where nobody finds out.
    """

    name: str
    up: bool
    in_flight: int
    rests: bool = False
    limit: int | None = None


def _none() -> int:
    return 0


def _nobody() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """Where the present numbers come from; each is called once a scrape, on the event loop, and must not wait.

    ``dropped`` and ``observer_failures`` only ever grow; ``dropped`` counts ledger rows by the sink that lost them, and
    ``spooled`` those that are not yet in its database.
    ``shared_lost`` is ``None`` where there are no other replicas. ``canaries`` are routes, and how their canary stands.
    """

    in_flight: Callable[[], int] = _none
    queued: Callable[[], int] = _none
    spooled: Callable[[], int] = _none
    backends: Callable[[], Iterable[BackendState]] = tuple
    dropped: Callable[[], Mapping[str, int]] = field(default=dict)
    observer_failures: Callable[[], int] = _none
    shared_lost: Callable[[], bool | None] = _nobody
    shared_dropped: Callable[[], int] = _none
    canaries: Callable[[], Iterable[tuple[str, str]]] = tuple


class LiveCollector(Collector):
    """Reads ``Live`` when the registry is scraped."""

    def __init__(self, live: Live, names: LabelNames) -> None:
        self._live = live
        self.names = names

    def collect(self) -> Iterator[Metric]:
        """The families of the present moment."""
        live = self._live
        yield GaugeMetricFamily("headrace_in_flight", "Requests being served now.", value=live.in_flight())
        yield GaugeMetricFamily("headrace_queued", "Requests waiting for a place now.", value=live.queued())
        yield GaugeMetricFamily("headrace_ledger_spooled", "Entries not yet in the database.", value=live.spooled())
        yield from self._backends()
        dropped = CounterMetricFamily(
            "headrace_ledger_dropped", "Entries that did not reach where they belong.", labels=["sink"]
        )
        for sink, count in live.dropped().items():
            dropped.add_metric([sink], count)
        yield dropped
        yield CounterMetricFamily(
            "headrace_observer_failures", "Times a learning plugin raised.", value=live.observer_failures()
        )
        yield from self._shared()
        yield from self._canaries()

    def describe(self) -> Iterator[Metric]:
        """Nothing: registering must not ask anybody for numbers yet."""
        return iter(())

    def _shared(self) -> Iterator[Metric]:
        lost = self._live.shared_lost()
        if lost is not None:
            yield GaugeMetricFamily("headrace_shared_up", "1 where the other replicas can be reached.", float(not lost))
            yield CounterMetricFamily(
                "headrace_shared_dropped", "Events that the other replicas were not told.", self._live.shared_dropped()
            )

    def _canaries(self) -> Iterator[Metric]:
        stands = list(self._live.canaries())
        if stands:
            gauge = GaugeMetricFamily(
                "headrace_canary", "1 for how a route's canary stands.", labels=["route", "state"]
            )
            for route, state in stands:
                gauge.add_metric([self.names.route(route), state], 1.0)
            yield gauge

    def _backends(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("headrace_backend_up", "1 where the backend takes requests.", labels=["backend"])
        busy = GaugeMetricFamily("headrace_backend_in_flight", "Attempts running on the backend.", labels=["backend"])
        rests = GaugeMetricFamily(
            "headrace_backend_resting", "1 where it rests after failures, or does not get on.", labels=["backend"]
        )
        found = GaugeMetricFamily(
            "headrace_backend_found_concurrency", "Attempts at once that it takes well, as found.", labels=["backend"]
        )
        for state in self._live.backends():
            if state.name in self.names.models:
                if state.limit is not None:
                    found.add_metric([state.name], state.limit)
                up.add_metric([state.name], float(state.up))
                busy.add_metric([state.name], state.in_flight)
                rests.add_metric([state.name], float(state.rests))
        yield up
        yield busy
        yield rests
        if found.samples:
            yield found
