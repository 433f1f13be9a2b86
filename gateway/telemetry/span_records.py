"""Spans as OTLP's protobuf records, written by hand: a tenth of what it costs to fill the messages in and encode them.

Fields are numbered as in ``opentelemetry/proto/trace/v1/trace.proto`` and ``common/v1/common.proto``; a test decodes
what is written here with the classes that are generated from them. A field is its tag, the length of what follows
where that is not fixed, and its bytes (https://protobuf.dev/programming-guides/encoding/).
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from struct import Struct as Layout

from msgspec import Struct

Value = str | int | float | bool | tuple[str, ...]

INTERNAL, SERVER, CLIENT = 1, 2, 3
"""Kinds of spans."""

_VARINT_BITS = 7
_VARINT_MORE = 0x80
_INT64 = 2**64
_TIMES = Layout("<BQBQ").pack  # start_time_unix_nano and end_time_unix_nano, fixed64 with their tags
_DOUBLE = Layout("<Bd").pack
_START_TAG, _END_TAG, _DOUBLE_TAG = 0x39, 0x41, 0x21
_PARENT_KNOWN = bytes((0x85, 0x01, 0x00, 0x01, 0x00, 0x00))  # flags: whether the parent is remote is said
_PARENT_REMOTE = bytes((0x85, 0x01, 0x00, 0x03, 0x00, 0x00))  # and it is
_FINE, _FAULT = bytes((0x7A, 0x00)), bytes((0x7A, 0x02, 0x18, 0x02))  # status: unset, error
_TRUE, _FALSE = bytes((0x10, 0x01)), bytes((0x10, 0x00))


class SpanLimit(Struct, frozen=True, kw_only=True):
    """How many attributes a span may have, and how many characters each text; ``None`` for any number."""

    attributes: int | None = None
    characters: int | None = None


class Span(Struct, frozen=True, kw_only=True):
    """What a record says. Ids are hex digits, ``parent_id`` may be empty; times are nanoseconds since the epoch."""

    trace_id: str
    span_id: str
    parent_id: str
    parent_is_remote: bool
    name: str
    kind: int
    times_ns: tuple[int, int]
    attributes: Mapping[str, Value]
    is_fault: bool


def span_record(span: Span, limit: SpanLimit) -> bytes:
    """A ``Span`` message."""
    kept = list(islice(span.attributes.items(), limit.attributes))
    dropped = len(span.attributes) - len(kept)
    started_ns, ended_ns = span.times_ns
    characters = limit.characters
    return b"".join(
        (
            _field(b"\x0a", bytes.fromhex(span.trace_id)),
            _field(b"\x12", bytes.fromhex(span.span_id)),
            _field(b"\x22", bytes.fromhex(span.parent_id)) if span.parent_id else b"",
            _field(b"\x2a", _utf8(span.name)),
            b"\x30%c" % span.kind,
            _TIMES(_START_TAG, started_ns, _END_TAG, max(started_ns, ended_ns)),
            *[_span_attribute(key, value, characters) for key, value in kept],
            b"\x50" + _varint(dropped) if dropped else b"",
            _FAULT if span.is_fault else _FINE,
            _PARENT_REMOTE if span.parent_is_remote else _PARENT_KNOWN,
        )
    )


def resource_record(attributes: Mapping[str, Value]) -> bytes:
    """A ``Resource`` message."""
    return b"".join([_field(b"\x0a", _attribute(key, value, None)) for key, value in attributes.items()])


def export_request(resource: bytes, scope: str, spans: Iterable[bytes]) -> bytes:
    """An ``ExportTraceServiceRequest``: the ``spans`` of one scope of one ``resource``."""
    scope_spans = _field(b"\x0a", _field(b"\x0a", _utf8(scope))) + b"".join([_field(b"\x12", span) for span in spans])
    return _field(b"\x0a", _field(b"\x0a", resource) + _field(b"\x12", scope_spans))


@lru_cache(maxsize=1024, typed=True)
def _span_attribute(key: str, value: Value, characters: int | None) -> bytes:
    """An attribute as a field of a span. Nearly all come again: names of models, statuses, small numbers."""
    return _field(b"\x4a", _attribute(key, value, characters))


def _attribute(key: str, value: Value, characters: int | None) -> bytes:
    return _field(b"\x0a", _utf8(key)) + _field(b"\x12", _any_value(value, characters))


def _any_value(value: Value, characters: int | None) -> bytes:
    if isinstance(value, str):
        return _field(b"\x0a", _utf8(value[:characters]))
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, int):
        return b"\x18" + _varint(value)
    if isinstance(value, float):
        return _DOUBLE(_DOUBLE_TAG, value)
    return _field(b"\x2a", b"".join([_field(b"\x0a", _any_value(one, characters)) for one in value]))


def _field(tag: bytes, content: bytes) -> bytes:
    return tag + _varint(len(content)) + content


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _varint(number: int) -> bytes:
    if 0 <= number < _VARINT_MORE:
        return b"%c" % number
    left, out = number % _INT64, bytearray()
    while left >= _VARINT_MORE:
        out.append(left % _VARINT_MORE | _VARINT_MORE)
        left >>= _VARINT_BITS
    out.append(left)
    return bytes(out)
