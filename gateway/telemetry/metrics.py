"""Prometheus metrics, made from ledger entries after the answer: they cost the request nothing and cannot disagree."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from gateway.judgement import JudgedAnswer
from gateway.ledger.entry_sink import take_each
from gateway.telemetry.batch_tallies import BatchTallies
from gateway.telemetry.cache_tallies import CacheTallies
from gateway.telemetry.guard_tallies import GuardTallies
from gateway.telemetry.judged_tallies import JudgedTallies
from gateway.telemetry.label_names import OTHER, LabelNames
from gateway.telemetry.live_gauges import Live, LiveCollector
from gateway.telemetry.tallies import Distribution, Spread, Tally, Total
from gateway.telemetry.unit_tallies import UnitTallies
from gateway.types import Attempt, LedgerEntry, Status

REQUEST_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320)
TTFT_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40)
TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28)
DRAFT_SOURCES = frozenset({"forced", "prediction", "repetition", "past_outputs", "markov", "model"})
FORECAST_RATIOS = (0.1, 0.25, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 4, 10)

_Where = tuple[str, str]
_Sum = Callable[[], None]
"""Adds what a batch adds to one series."""


class Counted(msgspec.Struct, frozen=True):
    """Everything that one process has counted since it started, by the names of the families."""

    totals: dict[str, list[Total]]
    distributions: dict[str, list[Distribution]]


class Metrics:
    """A sink of the ledger, and what ``/metrics`` answers. Keeps its own registry.

    ``headrace_tokens_total``: ``input`` includes ``cached``, ``output`` includes ``reasoning``, as providers bill them.
    Times to the first and per later token are taken of streams only: a whole answer has no visible first token.
    """

    def __init__(self, names: LabelNames, live: Live) -> None:
        registry = self._registry = CollectorRegistry()
        self._live = LiveCollector(live, names)
        registry.register(self._live)
        self._names = names
        per_model = ("backend", "model")
        self._requests = Tally(
            registry, "headrace_requests", "Requests that came to an end.", ("route", "operation", "status")
        )
        self._attempts = Tally(registry, "headrace_attempts", "Tries on a backend.", (*per_model, "status"))
        self._tokens = Tally(registry, "headrace_tokens", "Tokens of all attempts.", (*per_model, "kind"))
        self._cost_usd = Tally(registry, "headrace_cost_usd", "US dollars, where a price is known.", per_model)
        self._unpriced = Tally(registry, "headrace_unpriced_attempts", "Attempts without a known price.", per_model)
        self._drafts = Tally(
            registry, "headrace_draft_tokens", "Tokens that engines here drafted.", ("backend", "source", "outcome")
        )
        self._request_s = Spread(registry, "headrace_request_seconds", "Arrival to end.", ("route",), REQUEST_SECONDS)
        self._ttft_s = Spread(
            registry, "headrace_ttft_seconds", "Arrival to first streamed token.", ("route",), TTFT_SECONDS
        )
        self._token_s = Spread(
            registry, "headrace_time_per_output_token_seconds", "Each later token.", per_model, TOKEN_SECONDS
        )
        self._forecast_error = Spread(
            registry, "headrace_forecast_error", "Output tokens / forecast median.", ("route",), FORECAST_RATIOS
        )

        self._outcomes = Tally(
            registry, "headrace_task_outcomes", "Outcomes that clients told of their tasks.", ("success",)
        )
        self._units, self._guards = UnitTallies(registry, per_model), GuardTallies(registry)
        self._judged, self._cached = JudgedTallies(registry), CacheTallies(registry)
        self.batches = BatchTallies(registry)
        own = (self._requests, self._attempts, self._tokens, self._cost_usd, self._unpriced, self._drafts)
        others = (self._units, self._judged, self._cached, self._guards, self.batches)
        self._tallies = (*own, self._outcomes, *(tally for other in others for tally in other.tallies))
        self._spreads = (self._request_s, self._ttft_s, self._token_s, self._forecast_error, *self._guards.spreads)

    def rename(self, names: LabelNames) -> None:
        """Takes the names of a reloaded policy file; series that exist stay."""
        self._names = self._live.names = names

    def take(self, batch: Sequence[LedgerEntry]) -> None:
        """Counts the entries."""
        try:
            sums = self._sums(batch)
        except Exception:  # noqa: BLE001  # nothing was added yet, and it is raised below for the entry that it is of
            take_each(batch, self._take_alone)
        else:
            self._add(batch, sums)

    def take_judged(self, judged: JudgedAnswer) -> None:
        """Counts a judged answer."""
        self._judged.count(judged, self._names)

    def count_skipped(self, route: str, reason: str) -> None:
        """Counts an answer that was not judged, or a copy that was not sent."""
        self._judged.skip(route, reason, self._names)

    def count_outcome(self, *, success: bool | None) -> None:
        """Counts what a client told of a task."""
        self._outcomes.add(("unknown" if success is None else str(success).lower(),))

    def count_drafts(self, backend: str, source: str, drafted: int, accepted: int) -> None:
        """Counts what an engine on this machine drafted for one answer."""
        label = source if source in DRAFT_SOURCES else OTHER
        for outcome, tokens in (("accepted", accepted), ("rejected", drafted - accepted)):
            if tokens > 0:
                self._drafts.add((self._names.backend(backend), label, outcome), tokens)

    def counted(self) -> Counted:
        """What has been counted so far; gauges are not."""
        return Counted(
            totals={tally.name: tally.series() for tally in self._tallies},
            distributions={spread.name: spread.series() for spread in self._spreads},
        )

    def include(self, counted: Counted) -> None:
        """Counts what another process has counted, too."""
        for tally in self._tallies:
            for labels, total in counted.totals.get(tally.name, ()):
                tally.add(labels, total)
        for spread in self._spreads:
            for labels, counts, total in counted.distributions.get(spread.name, ()):
                spread.add_all(labels, counts, total)

    def together_with(self, others: Iterable[Counted], live: Live) -> "Metrics":
        """New metrics: the sums of these and ``others``, and the present of ``live``."""
        together = Metrics(self._names, live)
        for counted in (self.counted(), *others):
            together.include(counted)
        return together

    async def close(self) -> None:
        """Nothing to give back."""

    def render(self, accept: str) -> tuple[bytes, str]:
        """The exposition and its content type: OpenMetrics where ``accept`` asks for it, else Prometheus text."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def _take_alone(self, entry: LedgerEntry) -> None:
        self._add([entry], self._sums((entry,)))

    def _sums(self, batch: Sequence[LedgerEntry]) -> list[_Sum]:
        """What the batch adds: requests and attempts that have the same labels are added up first."""
        requests: defaultdict[tuple[str, str, str], list[LedgerEntry]] = defaultdict(list)
        attempts: defaultdict[tuple[str, str, str, bool], list[Attempt]] = defaultdict(list)
        for entry in batch:
            operation, status = entry.arrival.operation._value_, entry.outcome.status._value_  # ``value`` is a function
            requests[entry.route, operation, status].append(entry)
            streamed = entry.request is not None and entry.request.stream
            for attempt in entry.attempts:
                attempts[attempt.backend, attempt.model, attempt.status._value_, streamed].append(attempt)
        sums: list[_Sum] = []
        for (route, operation, status), alike in requests.items():
            label = self._names.route(route)
            sums.append(partial(self._requests.add, (label, operation, status), len(alike)))
            taken_s = [one.ended_s - one.arrival.received_s for one in alike]
            sums.append(partial(self._request_s.add_each, (label,), taken_s))
            sums += self._sums_of_answers((label,), alike)
        for (backend, model, status, streamed), tries in attempts.items():
            where = (self._names.backend(backend), self._names.model(backend, model))
            sums.append(partial(self._attempts.add, (*where, status), len(tries)))
            sums += self._sums_of_attempts(where, tries, streamed=streamed)
        return sums

    def _sums_of_answers(self, route: tuple[str], entries: Sequence[LedgerEntry]) -> Iterator[_Sum]:
        first_tokens_s, errors = [], []
        for entry in entries:
            serving, request = entry.serving, entry.request
            if serving is None:
                continue
            if request is not None and request.stream and serving.first_token_s is not None:
                seen_s = max(serving.first_token_s, entry.outcome.shown_s or 0.0)
                first_tokens_s.append(seen_s - entry.arrival.received_s)
            usage, forecast = serving.usage, entry.forecast
            if entry.outcome.status is Status.OK and forecast is not None and usage is not None and usage.units is None:
                errors.append(usage.output_tokens / (forecast.output_tokens_p50 or 1))
        if first_tokens_s:
            yield partial(self._ttft_s.add_each, route, first_tokens_s)
        if errors:
            yield partial(self._forecast_error.add_each, route, errors)

    def _sums_of_attempts(self, where: _Where, attempts: Sequence[Attempt], *, streamed: bool) -> Iterator[_Sum]:
        costs_usd = [attempt.cost_usd for attempt in attempts if attempt.cost_usd is not None]
        if costs_usd:
            yield partial(self._cost_usd.add, where, float(sum(costs_usd)))
        if len(costs_usd) < len(attempts):
            yield partial(self._unpriced.add, where, len(attempts) - len(costs_usd))
        usages = [attempt.usage for attempt in attempts if attempt.usage is not None]
        for kind, tokens in (
            ("input", sum([usage.prompt_tokens for usage in usages])),
            ("cached", sum([usage.cached_tokens for usage in usages])),
            ("output", sum([usage.output_tokens for usage in usages])),
            ("reasoning", sum([usage.reasoning_tokens for usage in usages])),
        ):
            if tokens > 0:
                yield partial(self._tokens.add, (*where, kind), tokens)
        for usage in usages:
            if usage.units is not None:
                yield partial(self._units.count, where, usage.units)
        if streamed and (seconds := _seconds_a_token(attempts)):
            yield partial(self._token_s.add_each, where, seconds)

    def _add(self, batch: Sequence[LedgerEntry], sums: Sequence[_Sum]) -> None:
        for add in sums:
            add()
        for entry in batch:
            if entry.guards:
                self._guards.count(entry)
            if entry.cache:
                self._cached.count(entry, self._names.route(entry.route))


def _seconds_a_token(attempts: Sequence[Attempt]) -> list[float]:
    """How long each token after the first took, in the streams among the attempts."""
    return [
        (attempt.ended_s - attempt.first_token_s) / (attempt.usage.output_tokens - 1)
        for attempt in attempts
        if attempt.first_token_s is not None
        and attempt.usage is not None
        and attempt.usage.units is None
        and attempt.usage.output_tokens > 1
    ]
