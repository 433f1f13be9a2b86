"""W3C Trace Context: reads ``traceparent`` and ``tracestate``, and writes them for the next hop.

Format: https://www.w3.org/TR/trace-context-2/. Whatever is not exactly as written there starts a new trace; a caller
cannot make a request fail with it.
"""

import re
from collections.abc import Iterable

# Span ids are labels that go out in the open, not secrets: they need no cryptographic source, only a fast uniform one,
# and `getrandbits` is a hundred nanoseconds without a system call. Seeded from the system, per process.
from random import getrandbits

from msgspec import Struct

from gateway.types import TraceContext

MAX_STATE_CHARACTERS = 512
MAX_STATE_MEMBERS = 32

_PARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[ -~]*)?")
_MEMBER = re.compile(r"([a-z0-9][a-z0-9_\-*/@]{0,255})=[ -+\--<>-~]{0,255}[!-+\--<>-~]")
_VERSION_00, _VERSION_INVALID = b"00", b"ff"
_NO_TRACE, _NO_SPAN = b"0" * 32, b"0" * 16
_SAMPLED = 0x01
_HEADERS = frozenset({b"traceparent", b"tracestate"})


class Sampling(Struct, frozen=True, kw_only=True):
    """Which traces are recorded.

    Of those that it decides about it takes the share ``ratio``, by the trace's id and so as every other service with
    the same ratio does: https://opentelemetry.io/docs/specs/otel/trace/sdk/#traceidratiobased. Where the caller's own
    span has an answer, that one holds, if ``parent_decides``.
    """

    ratio: float = 1.0
    parent_decides: bool = True

    def takes(self, trace_id: str) -> bool:
        """Whether a trace with this id is recorded."""
        return self.ratio >= 1 or int(trace_id[16:], 16) < self.ratio * _RANDOM_PART


_RANDOM_PART = 2**64
_EVERYTHING = Sampling()


def new_span_id() -> str:
    """16 hex digits, never all zero."""
    return f"{getrandbits(64) or 1:016x}"


class Parent(Struct, frozen=True, gc=False):
    """The caller's span, as its headers tell it; ``sampled`` is whether the caller records it."""

    trace_id: str
    span_id: str
    sampled: bool
    state: str = ""


def read_parent(headers: Iterable[tuple[bytes, bytes]]) -> Parent | None:
    """Whose span a request is a part of; ``None`` where the headers name none, or more than one.

    Args:
        headers: pairs of lower-case name and value, as ASGI gives them.
    """
    found = [header for header in headers if header[0] in _HEADERS]
    parents = [value for name, value in found if name == b"traceparent"]
    parent = _parse_parent(parents[0]) if len(parents) == 1 else None
    if parent is None:
        return None
    return Parent(*parent, _parse_state([value for name, value in found if name == b"tracestate"]))


def begin_trace(parent: Parent | None, trace_id: str, span_id: str, sampling: Sampling = _EVERYTHING) -> TraceContext:
    """The request's span ``span_id``: in the trace of its parent, or in a new one of that id."""
    if parent is None:
        return TraceContext(trace_id=trace_id, span_id=span_id, sampled=sampling.takes(trace_id))
    return TraceContext(
        trace_id=parent.trace_id,
        span_id=span_id,
        parent_id=parent.span_id,
        sampled=parent.sampled if sampling.parent_decides else sampling.takes(parent.trace_id),
        state=parent.state,
    )


def new_trace(headers: Iterable[tuple[bytes, bytes]], sampling: Sampling = _EVERYTHING) -> TraceContext:
    """The request's place in the caller's trace, or in a new one.

    Args:
        headers: pairs of lower-case name and value, as ASGI gives them.
        sampling: whether to record it.
    """
    return begin_trace(read_parent(headers), f"{getrandbits(128) or 1:032x}", new_span_id(), sampling)


def child(trace: TraceContext) -> TraceContext:
    """A new span under ``trace``: one attempt."""
    return TraceContext(
        trace_id=trace.trace_id,
        span_id=new_span_id(),
        parent_id=trace.span_id,
        sampled=trace.sampled,
        state=trace.state,
    )


def headers_for(trace: TraceContext) -> dict[str, str]:
    """The headers that put the next hop under ``trace``."""
    headers = {"traceparent": f"00-{trace.trace_id}-{trace.span_id}-{'01' if trace.sampled else '00'}"}
    if trace.state:
        headers["tracestate"] = trace.state
    return headers


def _parse_parent(value: bytes) -> tuple[str, str, bool] | None:
    match = _PARENT.fullmatch(value.strip(b" \t"))
    if match is None:
        return None
    version, trace_id, span_id, flags, rest = match.groups()
    if version == _VERSION_INVALID or (version == _VERSION_00 and rest is not None):
        return None
    if trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    return trace_id.decode(), span_id.decode(), bool(int(flags, 16) & _SAMPLED)


def _parse_state(values: list[bytes]) -> str:
    """The members of all ``tracestate`` headers in their order, or nothing at all where one is wrong."""
    try:
        text = b",".join(values).decode("ascii")
    except UnicodeDecodeError:
        return ""
    members = [member for part in text.split(",") if (member := part.strip(" \t"))]
    matches = [_MEMBER.fullmatch(member) for member in members]
    keys = {match[1] for match in matches if match is not None}
    state = ",".join(members)
    if len(keys) != len(members) or len(members) > MAX_STATE_MEMBERS or len(state) > MAX_STATE_CHARACTERS:
        return ""
    return state
