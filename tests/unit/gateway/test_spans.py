import asyncio
import logging
from collections.abc import Callable, Sequence
from threading import Event

import pytest
from msgspec.structs import replace
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes, http_attributes
from opentelemetry.trace import SpanKind, StatusCode

from gateway import span_names, spans
from gateway.spans import SpanSink
from gateway.types import Attempt, LedgerEntry, Outcome, Status, Usage

MakeEntry = Callable[..., LedgerEntry]
MakeAttempt = Callable[..., Attempt]


async def _exported(*entries: LedgerEntry) -> tuple[ReadableSpan, ...]:
    exporter = InMemorySpanExporter()
    sink = SpanSink(exporter)
    sink.take(entries)
    await sink.close()
    return exporter.get_finished_spans()


def _of_kind(spans_: Sequence[ReadableSpan], kind: SpanKind) -> list[ReadableSpan]:
    return [span for span in spans_ if span.kind is kind]


async def test_ids_are_those_that_went_out(make_entry: MakeEntry, make_attempt: MakeAttempt) -> None:
    """The server span and each client span bear the ids that upstreams saw in traceparent, and hang together."""
    entry = make_entry(attempts=(make_attempt(span_id="00000000000000aa"), make_attempt(span_id="00000000000000bb")))
    entry = replace(
        entry, arrival=replace(entry.arrival, trace=replace(entry.arrival.trace, parent_id="00000000000000cc"))
    )
    exported = await _exported(entry)
    (server,) = _of_kind(exported, SpanKind.SERVER)
    clients = _of_kind(exported, SpanKind.CLIENT)
    assert ([0xAA, 0xBB], 1, 0xCC) == (
        [c.context.span_id for c in clients],
        server.context.span_id,
        server.parent.span_id,
    )
    assert {1} == {span.context.trace_id for span in exported}
    assert {server.context.span_id} == {client.parent.span_id for client in clients}
    assert server.parent.is_remote


async def test_times_are_those_of_the_entry(make_entry: MakeEntry) -> None:
    """Spans carry the time at which things happened, not the time at which they were exported."""
    exported = await _exported(make_entry())
    times = [(span.start_time, span.end_time) for span in exported]
    second = 1_000_000_000
    start = 1_700_000_000 * second
    assert [(start + second // 4, start + 5 * second // 2), (start, start + 5 * second // 2)] == times


async def test_says_what_was_asked_and_what_it_took(make_entry: MakeEntry) -> None:
    """Attributes follow the GenAI conventions; tokens stand on the attempt, cached ones within the input."""
    exported = await _exported(make_entry())
    (server,), (client,) = _of_kind(exported, SpanKind.SERVER), _of_kind(exported, SpanKind.CLIENT)
    assert ("chat default", "chat llama") == (server.name, client.name)
    assert {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "fast",
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "llama",
        "gen_ai.response.finish_reasons": ("stop",),
        "http.response.status_code": 200,
        "headrace.request.id": "req-0",
        "headrace.tenant": "acme",
        "headrace.route": "default",
        "headrace.status": "ok",
        "headrace.attempts": 1,
        "headrace.cost_usd": 0.00012,
        "headrace.forecast.prompt_tokens": 90,
        "headrace.forecast.output_tokens": 50,
    } == server.attributes
    assert {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "groq",
        "gen_ai.request.model": "llama",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 51,
        "gen_ai.usage.cache_read.input_tokens": 40,
        "gen_ai.usage.reasoning.output_tokens": 7,
        "gen_ai.response.time_to_first_chunk": 0.25,
        "headrace.request.id": "req-0",
        "headrace.status": "ok",
        "headrace.usage.estimated": False,
        "headrace.cost_usd": 0.00012,
    } == client.attributes


ENDINGS = [
    (Status.OK, 200, StatusCode.UNSET),
    (Status.CLIENT_GONE, 499, StatusCode.UNSET),
    (Status.UPSTREAM_FAILED, 502, StatusCode.ERROR),
    (Status.TRUNCATED, 502, StatusCode.ERROR),
    (Status.BUG, 500, StatusCode.ERROR),
]


@pytest.mark.parametrize(("status", "http_status", "code"), ENDINGS)
async def test_every_ending_has_its_spans(
    make_entry: MakeEntry, make_attempt: MakeAttempt, status: Status, http_status: int, code: StatusCode
) -> None:
    """Full read, hang-up, upstream error, cut, bug: one server span and one client span, with the tokens so far."""
    attempt = make_attempt(status=status, usage=Usage(prompt_tokens=9, output_tokens=3, estimated=True), error="Why")
    entry = make_entry(attempts=(attempt,), outcome=Outcome(status=status, http_status=http_status, error="Why"))
    exported = await _exported(entry)
    assert [SpanKind.CLIENT, SpanKind.SERVER] == [span.kind for span in exported]
    assert {(code, status.value, "Why")} == {
        (span.status.status_code, span.attributes["headrace.status"], span.attributes["error.type"])
        for span in exported
    }
    assert 3 == exported[0].attributes["gen_ai.usage.output_tokens"]


async def test_refused_request_has_a_server_span_alone(make_entry: MakeEntry) -> None:
    """An admission refusal is no error of the server's and made no attempt."""
    refused = make_entry(
        request=None, route="", forecast=None, attempts=(), outcome=Outcome(status=Status.REJECTED, http_status=429)
    )
    exported = await _exported(refused)
    assert [("chat", SpanKind.SERVER, StatusCode.UNSET, 429)] == [
        (span.name, span.kind, span.status.status_code, span.attributes["http.response.status_code"])
        for span in exported
    ]


async def test_callers_wish_not_to_sample_is_respected(make_entry: MakeEntry) -> None:
    """A trace that its caller does not record gets no span from us either."""
    entry = make_entry()
    unsampled = replace(entry, arrival=replace(entry.arrival, trace=replace(entry.arrival.trace, sampled=False)))
    assert () == await _exported(unsampled)


async def test_nothing_leaks_into_the_next_request(make_entry: MakeEntry) -> None:
    """Making spans leaves no current span behind."""
    await _exported(make_entry())
    assert not otel.get_current_span().get_span_context().is_valid


async def test_no_words_in_spans(marked_entry: LedgerEntry, marker: str) -> None:
    """Prompts, tool arguments, answers and quoting errors stay out, even if an entry still has them."""
    exported = await _exported(marked_entry)
    assert 2 == len(exported)
    assert marker not in "".join(span.to_json() for span in exported)


@pytest.mark.parametrize(("given", "expected"), [({}, "headrace"), ({"OTEL_SERVICE_NAME": "edge"}, "edge")])
async def test_service_name(
    make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], expected: str
) -> None:
    """Spans come from ``headrace`` unless the operator names it."""
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    exported = await _exported(make_entry())
    assert {expected} == {span.resource.attributes["service.name"] for span in exported}


def test_names_are_those_of_the_conventions() -> None:
    """Every name outside ``headrace.`` exists in the installed conventions: a misspelt one fits no dashboard."""
    known = {
        value
        for module in (gen_ai_attributes, error_attributes, http_attributes)
        for value in vars(module).values()
        if isinstance(value, str)
    }
    ours = {value for name, value in vars(span_names).items() if name.isupper() and isinstance(value, str)}
    assert set() == {name for name in ours if not name.startswith("headrace.")} - known


class _AwayExporter(SpanExporter):
    """A collector that accepts the connection and never answers."""

    def __init__(self) -> None:
        self.asked = Event()
        self.released = Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        del spans
        self.asked.set()
        self.released.wait()
        return SpanExportResult.FAILURE


async def test_collector_that_is_away_blocks_nothing(
    make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Taking goes on, memory stays bounded, the log stays short and closing gives up after its time."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "64")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "32")
    monkeypatch.setattr(spans, "CLOSE_S", 0.01)
    exporter = _AwayExporter()
    sink = SpanSink(exporter)
    with caplog.at_level(logging.DEBUG):
        sink.take([make_entry(number) for number in range(16)])
        await asyncio.to_thread(exporter.asked.wait)
        sink.take([make_entry(number) for number in range(1000)])
        await sink.close()
        await sink.close()
    exporter.released.set()
    assert len(caplog.records) <= 2
