import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, NamedTuple
from zlib import decompress

import pytest
from msgspec.structs import replace
from opentelemetry import trace as otel
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes, http_attributes

from gateway.price import Usage
from gateway.settings import Settings
from gateway.task import Task
from gateway.telemetry import span_names, spans
from gateway.telemetry.span_records import SpanLimit
from gateway.telemetry.span_settings import Batching
from gateway.telemetry.spans import SpanSink
from gateway.types import Attempt, LedgerEntry, Outcome, Status

MakeEntry = Callable[..., LedgerEntry]
MakeAttempt = Callable[..., Attempt]


SERVER, CLIENT = Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CLIENT
UNSET, ERROR = 0, 2
PARENT_IS_REMOTE = 0x200


@dataclass
class Collector:
    """What a collector on a loopback port was sent: bodies as they came, and the headers of the last request."""

    endpoint: str
    bodies: list[bytes] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)

    def spans(self) -> "list[Exported]":
        """All spans, in the order in which they came."""
        return [
            Exported(span, {one.key: _value(one.value) for one in span.attributes})
            for resource in self.resources()
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def resources(self) -> list[ResourceSpans]:
        """All resources with their spans."""
        return [
            resource for body in self.bodies for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        ]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector, named in the environment as operators name theirs."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            found.headers = {name.lower(): value for name, value in self.headers.items()}
            found.bodies.append(decompress(body, 31) if self.headers["content-encoding"] == "gzip" else body)
            self.send_response(HTTPStatus.OK)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Collector(f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.endpoint)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


class Exported(NamedTuple):
    """One span as a collector reads it."""

    span: Span
    attributes: dict[str, Any]


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    return tuple(map(_value, value.array_value.values)) if kind == "array_value" else getattr(value, kind)


async def _exported(collector: Collector, *entries: LedgerEntry) -> list[Exported]:
    sink = SpanSink.over_otlp(Settings.otel_variables(), behind_proxy=Settings.behind_proxy)
    sink.take(entries)
    await sink.close()
    return collector.spans()


def _of_kind(exported: Sequence[Exported], kind: int) -> list[Exported]:
    return [one for one in exported if one.span.kind == kind]


async def test_ids_are_those_that_went_out(
    collector: Collector, make_entry: MakeEntry, make_attempt: MakeAttempt
) -> None:
    """The server span and each client span bear the ids that upstreams saw in traceparent, and hang together."""
    entry = make_entry(attempts=(make_attempt(span_id="00000000000000aa"), make_attempt(span_id="00000000000000bb")))
    entry = replace(
        entry, arrival=replace(entry.arrival, trace=replace(entry.arrival.trace, parent_id="00000000000000cc"))
    )
    exported = await _exported(collector, entry)
    ((server, _),) = _of_kind(exported, SERVER)
    clients = [span for span, _ in _of_kind(exported, CLIENT)]
    ids = ["00000000000000aa", "00000000000000bb"], "0000000000000001", "00000000000000cc"
    assert ids == ([span.span_id.hex() for span in clients], server.span_id.hex(), server.parent_span_id.hex())
    assert {f"{1:032x}"} == {span.trace_id.hex() for span, _ in exported}
    assert {server.span_id} == {client.parent_span_id for client in clients}
    assert [True, False, False] == [bool(span.flags & PARENT_IS_REMOTE) for span in (server, *clients)]


async def test_times_are_those_of_the_entry(collector: Collector, make_entry: MakeEntry) -> None:
    """Spans carry the time at which things happened, not the time at which they were exported."""
    exported = await _exported(collector, make_entry())
    times = [(span.start_time_unix_nano, span.end_time_unix_nano) for span, _ in exported]
    second = 1_000_000_000
    start = 1_700_000_000 * second
    assert [(start + second // 4, start + 5 * second // 2), (start, start + 5 * second // 2)] == times


async def test_says_what_was_asked_and_what_it_took(collector: Collector, make_entry: MakeEntry) -> None:
    """Attributes follow the GenAI conventions; tokens stand on the attempt, cached ones within the input."""
    exported = await _exported(collector, make_entry())
    (server,), (client,) = _of_kind(exported, SERVER), _of_kind(exported, CLIENT)
    assert ("chat default", "chat llama") == (server.span.name, client.span.name)
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
    (Status.OK, 200, UNSET),
    (Status.CLIENT_GONE, 499, UNSET),
    (Status.UPSTREAM_FAILED, 502, ERROR),
    (Status.TRUNCATED, 502, ERROR),
    (Status.BUG, 500, ERROR),
]


@pytest.mark.parametrize(("status", "http_status", "code"), ENDINGS)
async def test_every_ending_has_its_spans(
    collector: Collector,
    make_entry: MakeEntry,
    make_attempt: MakeAttempt,
    status: Status,
    http_status: int,
    code: int,
) -> None:
    """Full read, hang-up, upstream error, cut, bug: one server span and one client span, with the tokens so far."""
    attempt = make_attempt(status=status, usage=Usage(prompt_tokens=9, output_tokens=3, estimated=True), error="Why")
    entry = make_entry(attempts=(attempt,), outcome=Outcome(status=status, http_status=http_status, error="Why"))
    exported = await _exported(collector, entry)
    assert [CLIENT, SERVER] == [span.kind for span, _ in exported]
    assert {(code, status.value, "Why")} == {
        (span.status.code, attributes["headrace.status"], attributes["error.type"]) for span, attributes in exported
    }
    assert 3 == exported[0].attributes["gen_ai.usage.output_tokens"]


async def test_refused_request_has_a_server_span_alone(collector: Collector, make_entry: MakeEntry) -> None:
    """An admission refusal is no error of the server's and made no attempt."""
    refused = make_entry(
        request=None, route="", forecast=None, attempts=(), outcome=Outcome(status=Status.REJECTED, http_status=429)
    )
    exported = await _exported(collector, refused)
    assert [("chat", SERVER, UNSET, 429)] == [
        (span.name, span.kind, span.status.code, attributes["http.response.status_code"])
        for span, attributes in exported
    ]


async def test_the_task_is_on_the_span_of_its_request(collector: Collector, make_entry: MakeEntry) -> None:
    """With its stage where there is one: traces are found by tasks, which are too many for a metric."""
    entry = make_entry(1)
    staged = replace(entry, arrival=replace(entry.arrival, task=Task(id="t-1", stage="plan")))
    alone = replace(entry, arrival=replace(entry.arrival, task=Task(id="t-2")))
    servers = _of_kind(await _exported(collector, staged, alone), SERVER)
    assert [("t-1", "plan"), ("t-2", None)] == [
        (span.attributes[span_names.TASK], span.attributes.get(span_names.STAGE)) for span in servers
    ]


async def test_callers_wish_not_to_sample_is_respected(collector: Collector, make_entry: MakeEntry) -> None:
    """A trace that its caller does not record gets no span from us either."""
    entry = make_entry()
    unsampled = replace(entry, arrival=replace(entry.arrival, trace=replace(entry.arrival.trace, sampled=False)))
    assert [] == await _exported(collector, unsampled)


async def test_nothing_leaks_into_the_next_request(collector: Collector, make_entry: MakeEntry) -> None:
    """Making spans leaves no current span behind."""
    await _exported(collector, make_entry())
    assert not otel.get_current_span().get_span_context().is_valid


async def test_no_words_in_spans(collector: Collector, marked_entry: LedgerEntry, marker: str) -> None:
    """Prompts, tool arguments, answers and quoting errors stay out, even if an entry still has them."""
    exported = await _exported(collector, marked_entry)
    assert 2 == len(exported)
    assert marker.encode() not in b"".join(collector.bodies)


@pytest.mark.parametrize(("given", "expected"), [({}, "headrace"), ({"OTEL_SERVICE_NAME": "edge"}, "edge")])
async def test_service_name(
    collector: Collector,
    make_entry: MakeEntry,
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, str],
    expected: str,
) -> None:
    """Spans come from ``headrace`` unless the operator names it."""
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "host.name=edge-1")
    await _exported(collector, make_entry())
    (resource,) = collector.resources()
    named = {one.key: _value(one.value) for one in resource.resource.attributes}
    assert (expected, "edge-1") == (named["service.name"], named["host.name"])
    assert ["headrace"] == [scope.scope.name for scope in resource.scope_spans]


async def test_the_exporters_settings_hold(
    collector: Collector, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spans go out as the operator's ``OTEL_EXPORTER_OTLP_*`` variables say: compressed, and with their headers."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=search")
    assert 2 == len(await _exported(collector, make_entry()))
    names = ("content-encoding", "content-type", "x-team")
    assert ["gzip", "application/x-protobuf", "search"] == [collector.headers[name] for name in names]


async def test_spans_go_through_a_proxy(
    collector: Collector, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the usual variables name a proxy for the collector's address, that one is asked for it."""
    monkeypatch.setenv("HTTP_PROXY", collector.endpoint)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector.example:4318")
    assert 2 == len(await _exported(collector, make_entry()))
    assert "collector.example:4318" == collector.headers["host"]


async def test_a_spans_limits_hold(
    collector: Collector, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``OTEL_SPAN_ATTRIBUTE_*_LIMIT`` bound a span's attributes and their texts; how many were left out is said."""
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "3")
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "2")
    client, server = await _exported(collector, make_entry())
    assert {
        "gen_ai.operation.name": "ch",
        "http.response.status_code": 200,
        "headrace.request.id": "re",
    } == server.attributes
    assert (9, 11) == (client.span.dropped_attributes_count, server.span.dropped_attributes_count)


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


class _AwayExporter:
    """A collector that accepts the connection and never answers."""

    def __init__(self) -> None:
        self.asked = Event()
        self.released = Event()

    def export(self, batch: list[bytes], /) -> None:
        del batch
        self.asked.set()
        self.released.wait()

    def shutdown(self) -> None:
        """There is nothing to give up."""


async def test_collector_that_is_away_blocks_nothing(
    make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Taking goes on, memory stays bounded, the log stays short and closing gives up after its time."""
    monkeypatch.setattr(spans, "CLOSE_S", 0.01)
    exporter = _AwayExporter()
    sink = SpanSink(exporter, batching=Batching(most_waiting=64, most_sent=32), limit=SpanLimit())
    with caplog.at_level(logging.DEBUG):
        sink.take([make_entry(number) for number in range(16)])
        await asyncio.to_thread(exporter.asked.wait)
        sink.take([make_entry(number) for number in range(1000)])
        await sink.close()
        await sink.close()
    exporter.released.set()
    assert len(caplog.records) <= 2
    assert 1 == sum("still wait are lost" in record.message for record in caplog.records)
