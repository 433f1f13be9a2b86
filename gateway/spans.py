"""OpenTelemetry spans, made from ledger entries after the answer.

One SERVER span a request and one CLIENT span an attempt. Their ids went upstream in ``traceparent`` before there was a
span, so the finished spans are put together here with ids and times as they were, and go to the SDK's batch processor.
A tracer would draw ids and take times of its own, and cost the request ten times as much.
"""

import asyncio
import logging
from collections.abc import Sequence
from threading import Thread

from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status as SpanStatus
from opentelemetry.trace.status import StatusCode

from gateway import span_names as names
from gateway.entry_sink import take_each
from gateway.seldom import SeldomFilter
from gateway.types import Attempt, LedgerEntry, Operation, Status, TraceContext

CLOSE_S = 5.0
MAX_MODEL_CHARACTERS = 128
NANOSECONDS = 1_000_000_000

_OPERATION_NAMES = {Operation.CHAT: "chat", Operation.COMPLETION: "text_completion"}
_FAULTS = frozenset({Status.UPSTREAM_FAILED, Status.TRUNCATED, Status.NO_CANDIDATE, Status.BUG})
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_SCOPE = InstrumentationScope("headrace")
_FINE, _FAULT = SpanStatus(StatusCode.UNSET), SpanStatus(StatusCode.ERROR)

Value = str | int | float | bool | tuple[str, ...]


class SpanSink:
    """Hands the spans of sampled requests to ``exporter`` in batches, on the SDK's own thread.

    Bounded by the SDK: ``OTEL_BSP_MAX_QUEUE_SIZE`` spans may wait, the oldest go first. ``service.name`` is
    ``headrace`` unless ``OTEL_SERVICE_NAME`` or ``OTEL_RESOURCE_ATTRIBUTES`` say otherwise.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._processor = BatchSpanProcessor(exporter)
        self._resource = Resource.create({SERVICE_NAME: "headrace"}).merge(OTELResourceDetector().detect())
        self._closing: Thread | None = None

    @classmethod
    def over_otlp(cls) -> "SpanSink":
        """Exports over OTLP and HTTP to where the standard ``OTEL_EXPORTER_OTLP_*`` variables say."""
        logger = logging.getLogger(trace_exporter.__name__)
        if not any(isinstance(known, SeldomFilter) for known in logger.filters):
            logger.addFilter(SeldomFilter())  # a collector that is away is worth one line, not one a batch
        return cls(OTLPSpanExporter())

    def take(self, batch: Sequence[LedgerEntry]) -> None:
        """Makes the spans of ``batch`` and queues them."""
        take_each([entry for entry in batch if entry.arrival.trace.sampled], self._queue)

    async def close(self) -> None:
        """Exports what waits, for at most ``CLOSE_S``: a collector that is away must not hold up the shutdown."""
        if self._closing is None:
            self._closing = Thread(target=self._processor.shutdown, name="headrace-spans-close", daemon=True)
            self._closing.start()
        await asyncio.to_thread(self._closing.join, CLOSE_S)

    def _queue(self, entry: LedgerEntry) -> None:
        for span in self._spans(entry):
            self._processor.on_end(span)

    def _spans(self, entry: LedgerEntry) -> list[ReadableSpan]:
        trace = entry.arrival.trace
        server = _context(trace, trace.span_id, remote=False)
        caller = _context(trace, trace.parent_id, remote=True) if trace.parent_id else None
        operation = _OPERATION_NAMES[entry.arrival.operation]
        spans = [
            self._span(
                name=f"{operation} {attempt.model}",
                context=_context(trace, attempt.span_id, remote=False),
                parent=server,
                kind=SpanKind.CLIENT,
                attributes=_attempt_attributes(entry, attempt, operation),
                status=attempt.status,
                times_ns=(_epoch_ns(entry, attempt.started_s), _epoch_ns(entry, attempt.ended_s)),
            )
            for attempt in entry.attempts
        ]
        spans.append(
            self._span(
                name=f"{operation} {entry.route}" if entry.route else operation,
                context=server,
                parent=caller,
                kind=SpanKind.SERVER,
                attributes=_request_attributes(entry, operation),
                status=entry.outcome.status,
                times_ns=(_epoch_ns(entry, entry.arrival.received_s), _epoch_ns(entry, entry.ended_s)),
            )
        )
        return spans

    def _span(
        self,
        *,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        kind: SpanKind,
        attributes: dict[str, Value],
        status: Status,
        times_ns: tuple[int, int],
    ) -> ReadableSpan:
        started_ns, ended_ns = times_ns
        return ReadableSpan(
            name=name,
            context=context,
            parent=parent,
            resource=self._resource,
            attributes=attributes,
            kind=kind,
            instrumentation_scope=_SCOPE,
            status=_FAULT if status in _FAULTS else _FINE,
            start_time=started_ns,
            end_time=max(started_ns, ended_ns),
        )


def _epoch_ns(entry: LedgerEntry, moment_s: float) -> int:
    """A monotonic moment as nanoseconds since the epoch; added up as integers, since a float loses 200 ns there."""
    arrival = entry.arrival
    return round(arrival.received_unix_s * NANOSECONDS) + round((moment_s - arrival.received_s) * NANOSECONDS)


def _context(trace: TraceContext, span_id: str, *, remote: bool) -> SpanContext:
    return SpanContext(int(trace.trace_id, 16), int(span_id, 16), is_remote=remote, trace_flags=_SAMPLED)


def _request_attributes(entry: LedgerEntry, operation: str) -> dict[str, Value]:
    """What the client asked for and got. Token counts are the attempts': here they would be counted twice."""
    outcome, request, forecast = entry.outcome, entry.request, entry.forecast
    attributes: dict[str, Value] = {
        names.OPERATION_NAME: operation,
        names.HTTP_STATUS: outcome.http_status,
        names.REQUEST_ID: entry.arrival.id,
        names.TENANT: entry.arrival.tenant,
        names.ROUTE: entry.route,
        names.STATUS: outcome.status.value,
        names.ATTEMPTS: len(entry.attempts),
    }
    if request is not None:
        attributes[names.REQUEST_MODEL] = request.model[:MAX_MODEL_CHARACTERS]
        attributes[names.REQUEST_STREAM] = request.stream
        if request.max_tokens is not None:
            attributes[names.REQUEST_MAX_TOKENS] = request.max_tokens
    if forecast is not None:
        attributes[names.FORECAST_PROMPT_TOKENS] = forecast.prompt_tokens
        attributes[names.FORECAST_OUTPUT_TOKENS] = forecast.output_tokens_p50
    if entry.attempts and outcome.status is Status.OK:
        attributes[names.RESPONSE_MODEL] = entry.attempts[-1].model
    if outcome.finish_reason:
        attributes[names.FINISH_REASONS] = (outcome.finish_reason,)
    if outcome.error:
        attributes[names.ERROR_TYPE] = outcome.error
    if (cost_usd := entry.cost_usd) is not None:
        attributes[names.COST_USD] = float(cost_usd)
    return attributes


def _attempt_attributes(entry: LedgerEntry, attempt: Attempt, operation: str) -> dict[str, Value]:
    attributes: dict[str, Value] = {
        names.OPERATION_NAME: operation,
        names.PROVIDER_NAME: attempt.backend,
        names.REQUEST_MODEL: attempt.model,
        names.REQUEST_ID: entry.arrival.id,
        names.STATUS: attempt.status.value,
    }
    if (usage := attempt.usage) is not None:
        attributes[names.INPUT_TOKENS] = usage.prompt_tokens
        attributes[names.OUTPUT_TOKENS] = usage.output_tokens
        attributes[names.CACHED_TOKENS] = usage.cached_tokens
        attributes[names.REASONING_TOKENS] = usage.reasoning_tokens
        attributes[names.ESTIMATED] = usage.estimated
    if attempt.first_token_s is not None:
        attributes[names.TIME_TO_FIRST_CHUNK] = attempt.first_token_s - attempt.started_s
    if attempt.upstream_status is not None:
        attributes[names.HTTP_STATUS] = attempt.upstream_status
    if attempt.error:
        attributes[names.ERROR_TYPE] = attempt.error
    if attempt.cost_usd is not None:
        attributes[names.COST_USD] = float(attempt.cost_usd)
    return attributes
