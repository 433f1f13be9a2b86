import math

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from gateway.telemetry.span_records import (
    CLIENT,
    SERVER,
    Span,
    SpanLimit,
    Value,
    export_request,
    resource_record,
    span_record,
)

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
_VALUES = st.one_of(
    _TEXTS,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.lists(_TEXTS, max_size=3).map(tuple),
)
_ATTRIBUTES = st.dictionaries(_TEXTS.filter(bool), _VALUES, max_size=6)
_IDS = st.tuples(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.integers(0, 2**64 - 1))


@given(
    ids=_IDS,
    kind=st.sampled_from([(CLIENT, SpanKind.CLIENT), (SERVER, SpanKind.SERVER)]),
    name=_TEXTS,
    times_ns=st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)).map(sorted),
    attributes=_ATTRIBUTES,
    is_fault=st.booleans(),
    is_remote=st.booleans(),
)
def test_records_say_what_the_sdk_would(
    ids: tuple[int, int, int],
    kind: tuple[int, SpanKind],
    name: str,
    times_ns: list[int],
    attributes: dict[str, Value],
    is_fault: bool,
    is_remote: bool,
) -> None:
    """A collector reads from our bytes what it would read from those of OpenTelemetry's own encoder."""
    trace_id, span_id, parent_id = ids
    resource = {"service.name": "headrace", "process.pid": 7}
    sampled = TraceFlags(TraceFlags.SAMPLED)
    theirs = ReadableSpan(
        name=name,
        context=SpanContext(trace_id, span_id, is_remote=False, trace_flags=sampled),
        parent=SpanContext(trace_id, parent_id, is_remote=is_remote, trace_flags=sampled) if parent_id else None,
        resource=Resource(resource),
        attributes=attributes,
        kind=kind[1],
        instrumentation_scope=InstrumentationScope("headrace"),
        status=Status(StatusCode.ERROR if is_fault else StatusCode.UNSET),
        start_time=times_ns[0],
        end_time=times_ns[1],
    )
    ours = Span(
        trace_id=f"{trace_id:032x}",
        span_id=f"{span_id:016x}",
        parent_id=f"{parent_id:016x}" if parent_id else "",
        parent_is_remote=bool(parent_id) and is_remote,
        name=name,
        kind=kind[0],
        times_ns=(times_ns[0], times_ns[1]),
        attributes=attributes,
        is_fault=is_fault,
    )
    records = [span_record(ours, SpanLimit())] * 2
    request = export_request(resource_record(resource), "headrace", records)
    assert encode_spans([theirs, theirs]) == ExportTraceServiceRequest.FromString(request)


def test_a_span_does_not_end_before_it_begins() -> None:
    """Clocks may be set back meanwhile; a length below zero would make no sense to anybody."""
    span = Span(
        trace_id="1" * 32,
        span_id="2" * 16,
        parent_id="",
        parent_is_remote=False,
        name="chat",
        kind=CLIENT,
        times_ns=(20, 10),
        attributes={"seconds": math.inf},
        is_fault=False,
    )
    request = export_request(b"", "headrace", [span_record(span, SpanLimit())])
    (read,) = ExportTraceServiceRequest.FromString(request).resource_spans[0].scope_spans[0].spans
    assert (20, 20) == (read.start_time_unix_nano, read.end_time_unix_nano)
