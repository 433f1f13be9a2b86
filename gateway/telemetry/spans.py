"""OpenTelemetry spans, made from ledger entries after the answer.

One SERVER span a request and one CLIENT span an attempt. Their ids went upstream in ``traceparent`` before there was a
span, so the finished spans are put together here with ids and times as they were, encoded, and go to the SDK's batch
processor and exporter. A tracer would draw ids and take times of its own; the SDK's spans and their encoding alone cost
as much as a whole request.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from threading import Thread
from typing import Protocol

from opentelemetry.sdk._shared_internal import BatchProcessor
from opentelemetry.sdk._shared_internal._processor_metrics import NoOpProcessorMetrics

from gateway.judgement import JudgedAnswer
from gateway.ledger.entry_sink import take_each
from gateway.telemetry import span_names as names
from gateway.telemetry.judged_span import judged_span
from gateway.telemetry.otlp import read_destination
from gateway.telemetry.record_exporter import RecordExporter
from gateway.telemetry.span_records import CLIENT, SERVER, Span, SpanLimit, Value, resource_record, span_record
from gateway.telemetry.span_settings import Batching, read_batching, read_resource, read_span_limit
from gateway.types import Attempt, LedgerEntry, Operation, Status

CLOSE_S = 5.0
MAX_MODEL_CHARACTERS = 128
NANOSECONDS = 1_000_000_000

_log = logging.getLogger(__name__)

_OPERATION_NAMES = {
    Operation.CHAT: "chat",
    Operation.COMPLETION: "text_completion",
    Operation.EMBEDDING: "embeddings",
    Operation.MESSAGES: "chat",
    Operation.COUNT_TOKENS: "count_tokens",
    Operation.RESPONSE: "chat",
    Operation.MODERATION: "moderation",
    Operation.TRANSCRIPTION: "transcription",
    Operation.TRANSLATION: "audio_translation",
    Operation.SPEECH: "speech",
    Operation.IMAGE: "image_generation",
    Operation.IMAGE_EDIT: "image_edit",
    Operation.IMAGE_VARIATION: "image_variation",
    Operation.RERANK: "rerank",
    Operation.OLLAMA_CHAT: "chat",
    Operation.OLLAMA_GENERATE: "text_completion",
    Operation.OLLAMA_EMBED: "embeddings",
    Operation.OLLAMA_EMBEDDINGS: "embeddings",
}
_FAULTS = frozenset({Status.UPSTREAM_FAILED, Status.TRUNCATED, Status.NO_CANDIDATE, Status.BUG})


class Exporter(Protocol):
    """Sends encoded spans away; on a thread of its own."""

    def export(self, batch: list[bytes], /) -> None:
        """Sends them."""
        ...

    def shutdown(self) -> None:
        """Gives up what is under way."""
        ...


class SpanSink:
    """Hands the spans of sampled requests to ``exporter`` in batches, on a thread of the SDK's batch processor.

    Bounded: where as many wait as ``batching`` allows, the oldest go first; and by ``limit`` to what a span may hold.
    """

    def __init__(self, exporter: Exporter, *, batching: Batching, limit: SpanLimit) -> None:
        self._processor = BatchProcessor[bytes](
            exporter,
            schedule_delay_millis=batching.delay_ms,
            max_export_batch_size=batching.most_sent,
            export_timeout_millis=0,  # which it does not look at
            max_queue_size=batching.most_waiting,
            exporting="Span",
            metrics=NoOpProcessorMetrics(),
        )
        self._limit = limit
        self._closing: Thread | None = None

    @classmethod
    def over_otlp(cls, environment: Mapping[str, str], *, behind_proxy: Callable[[str], bool]) -> "SpanSink":
        """Exports over OTLP and HTTP as the standard ``OTEL_*`` variables say.

        Raises:
            ConfigurationError: naming one that cannot be meant.
        """
        destination = read_destination(environment, behind_proxy=behind_proxy)
        exporter = RecordExporter(resource_record(read_resource(environment)), destination)
        return cls(exporter, batching=read_batching(environment), limit=read_span_limit(environment))

    def take(self, batch: Sequence[LedgerEntry]) -> None:
        """Makes the spans of ``batch`` and queues them."""
        take_each([entry for entry in batch if entry.arrival.trace.sampled], self._queue)

    def take_judged(self, judged: JudgedAnswer) -> None:
        """Makes the span of a judged answer and queues it."""
        trace = judged.trace
        if trace is not None and trace.sampled:
            self._processor.emit(span_record(judged_span(judged, trace), self._limit))

    async def close(self) -> None:
        """Exports what waits, for at most ``CLOSE_S``: a collector that is away must not hold up the shutdown."""
        is_first = self._closing is None
        if self._closing is None:
            self._closing = Thread(target=self._processor.shutdown, name="headrace-spans-close", daemon=True)
            self._closing.start()
        await asyncio.to_thread(self._closing.join, CLOSE_S)
        if is_first and self._closing.is_alive():
            _log.error("spans that still wait are lost, since the collector did not take them within %g s", CLOSE_S)

    def _queue(self, entry: LedgerEntry) -> None:
        for span in _spans(entry):
            self._processor.emit(span_record(span, self._limit))


def _spans(entry: LedgerEntry) -> list[Span]:
    trace, operation = entry.arrival.trace, _OPERATION_NAMES[entry.arrival.operation]
    clients = [
        Span(
            trace_id=trace.trace_id,
            span_id=attempt.span_id,
            parent_id=trace.span_id,
            parent_is_remote=False,
            name=f"{operation} {attempt.model}",
            kind=CLIENT,
            times_ns=(_epoch_ns(entry, attempt.started_s), _epoch_ns(entry, attempt.ended_s)),
            attributes=_attempt_attributes(entry, attempt, operation),
            is_fault=attempt.status in _FAULTS,
        )
        for attempt in entry.attempts
    ]
    server = Span(
        trace_id=trace.trace_id,
        span_id=trace.span_id,
        parent_id=trace.parent_id,
        parent_is_remote=bool(trace.parent_id),
        name=f"{operation} {entry.route}" if entry.route else operation,
        kind=SERVER,
        times_ns=(_epoch_ns(entry, entry.arrival.received_s), _epoch_ns(entry, entry.ended_s)),
        attributes=_request_attributes(entry, operation),
        is_fault=entry.outcome.status in _FAULTS,
    )
    return [*clients, server]


def _epoch_ns(entry: LedgerEntry, moment_s: float) -> int:
    """A monotonic moment as nanoseconds since the epoch; added up as integers, since a float loses 200 ns there."""
    arrival = entry.arrival
    return round(arrival.received_unix_s * NANOSECONDS) + round((moment_s - arrival.received_s) * NANOSECONDS)


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
    if entry.arrival.task is not None:
        attributes[names.TASK] = entry.arrival.task.id
        if entry.arrival.task.stage:
            attributes[names.STAGE] = entry.arrival.task.stage
    if request is not None:
        attributes[names.REQUEST_MODEL] = request.model[:MAX_MODEL_CHARACTERS]
        attributes[names.REQUEST_STREAM] = request.stream
        if request.max_tokens is not None:
            attributes[names.REQUEST_MAX_TOKENS] = request.max_tokens
    if forecast is not None:
        attributes[names.FORECAST_PROMPT_TOKENS] = forecast.prompt_tokens
        attributes[names.FORECAST_OUTPUT_TOKENS] = forecast.output_tokens_p50
    if (serving := entry.serving) is not None and outcome.status is Status.OK:
        attributes[names.RESPONSE_MODEL] = serving.model
    if outcome.finish_reason:
        attributes[names.FINISH_REASONS] = (outcome.finish_reason,)
    if outcome.error:
        attributes[names.ERROR_TYPE] = outcome.error
    attributes |= _guards(entry)
    if (cost_usd := entry.cost_usd) is not None:
        attributes[names.COST_USD] = float(cost_usd)
    return attributes


def _guards(entry: LedgerEntry) -> dict[str, Value]:
    """What guards did, one word for each that did anything."""
    told = tuple(mark.in_words() for mark in entry.guards if not mark.silent)
    return {names.GUARDS: told} if told else {}


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
        if usage.units is not None:
            attributes[names.UNITS] = usage.units.words()
    if attempt.first_token_s is not None:
        attributes[names.TIME_TO_FIRST_CHUNK] = attempt.first_token_s - attempt.started_s
    if attempt.upstream_status is not None:
        attributes[names.HTTP_STATUS] = attempt.upstream_status
    if attempt.error:
        attributes[names.ERROR_TYPE] = attempt.error
    if attempt.cost_usd is not None:
        attributes[names.COST_USD] = float(attempt.cost_usd)
    return attributes
