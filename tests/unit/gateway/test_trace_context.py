import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.trace_context import MAX_STATE_CHARACTERS, MAX_STATE_MEMBERS, Sampling, child, headers_for, new_trace

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN_ID = "00f067aa0ba902b7"
PARENT = f"00-{TRACE_ID}-{SPAN_ID}-01".encode()
OUTGOING = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]")


def test_goes_on_with_the_callers_trace() -> None:
    """A valid traceparent gives us its trace, its span as our parent, and a span of our own."""
    trace = new_trace([(b"host", b"x"), (b"traceparent", PARENT)])
    assert (TRACE_ID, SPAN_ID, True, "") == (trace.trace_id, trace.parent_id, trace.sampled, trace.state)
    assert trace.span_id not in ("", SPAN_ID, "0" * 16)


@pytest.mark.parametrize(("flags", "sampled"), [(b"00", False), (b"01", True), (b"03", True), (b"fe", False)])
def test_respects_the_sampled_flag_only(flags: bytes, *, sampled: bool) -> None:
    """The first bit says sampled; the others are not ours to understand or to pass on."""
    trace = new_trace([(b"traceparent", PARENT[:-2] + flags)])
    assert (sampled, "01" if sampled else "00") == (trace.sampled, headers_for(trace)["traceparent"][-2:])


@pytest.mark.parametrize("value", [b"01" + PARENT[2:], b"cc" + PARENT[2:] + b"-and more", b" \t" + PARENT + b" "])
def test_reads_later_versions_as_far_as_it_knows_them(value: bytes) -> None:
    """A higher version may say more after the flags; white space around the value is HTTP's."""
    assert TRACE_ID == new_trace([(b"traceparent", value)]).trace_id


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"ff" + PARENT[2:],
        PARENT.upper(),
        PARENT + b"-more",
        PARENT + b"\n",
        PARENT[:-1],
        PARENT + b"0",
        b"01" + PARENT[2:] + b"0",
        PARENT.replace(b"-", b"_"),
        PARENT.replace(TRACE_ID.encode(), b"0" * 32),
        PARENT.replace(SPAN_ID.encode(), b"0" * 16),
        PARENT.replace(b"4bf9", "4bf٩".encode()),
    ],
)
def test_invalid_parent_starts_a_new_trace(value: bytes) -> None:
    """Whatever is not exactly a traceparent is as good as none, and its tracestate goes with it."""
    trace = new_trace([(b"traceparent", value), (b"tracestate", b"a=1")])
    assert trace.trace_id != TRACE_ID
    assert ("", "", True) == (trace.parent_id, trace.state, trace.sampled)


def test_two_parents_are_none() -> None:
    """Nobody can have two; believing either would be a guess."""
    assert "" == new_trace([(b"traceparent", PARENT), (b"traceparent", PARENT)]).parent_id


def test_state_of_several_headers_is_joined_in_order() -> None:
    """Members keep their order and their values, blanks around them and empty members go."""
    headers = [(b"traceparent", PARENT), (b"tracestate", b"b=2 , ,a@x=1\t"), (b"tracestate", b"3c=x y")]
    assert "b=2,a@x=1,3c=x y" == new_trace(headers).state


@pytest.mark.parametrize(
    "state",
    [
        b"a",
        b"=1",
        b"A=1",
        b"a=",
        b"a=1=2",
        b"a=1,a=2",
        b"a=\xe9",
        b"a=x\r\nx-forged: 1",
        ",".join(f"k{n}=1" for n in range(MAX_STATE_MEMBERS + 1)).encode(),
        b"a=" + b"x" * 250 + b",b=" + b"x" * 250 + b",c=" + b"x" * 20,
    ],
)
def test_invalid_state_is_dropped_and_the_parent_kept(state: bytes) -> None:
    """One bad member spoils the list, as the standard says; the trace itself goes on."""
    trace = new_trace([(b"traceparent", PARENT), (b"tracestate", state)])
    assert (TRACE_ID, "") == (trace.trace_id, trace.state)


def test_child_hangs_under_its_parent() -> None:
    """An attempt has a span of its own in the same trace, with the same flags and state."""
    trace = new_trace([(b"traceparent", PARENT[:-2] + b"00"), (b"tracestate", b"a=1")])
    attempt = child(trace)
    assert (trace.trace_id, trace.span_id, False, "a=1") == (
        attempt.trace_id,
        attempt.parent_id,
        attempt.sampled,
        attempt.state,
    )
    assert attempt.span_id != trace.span_id


def test_new_traces_differ() -> None:
    """A thousand requests have a thousand traces."""
    assert 1000 == len({new_trace([]).trace_id for _ in range(1000)})


@given(st.lists(st.tuples(st.sampled_from([b"traceparent", b"tracestate", b"x"]), st.binary(max_size=80)), max_size=5))
def test_any_headers_make_a_valid_context(headers: list[tuple[bytes, bytes]]) -> None:
    """Whatever a caller sends, what goes upstream is well formed."""
    outgoing = headers_for(child(new_trace(headers)))
    assert OUTGOING.fullmatch(outgoing["traceparent"])
    assert outgoing.get("tracestate", "").isprintable()


@given(
    st.dictionaries(
        st.from_regex(r"[a-z0-9][a-z0-9_\-*/@]{0,20}", fullmatch=True),
        st.from_regex(r"[ -+\--<>-~]{0,20}[!-+\--<>-~]", fullmatch=True),
        max_size=8,
    )
)
def test_valid_state_survives_the_way_through(members: dict[str, str]) -> None:
    """What goes out and comes in again is the same trace, span and state."""
    state = ",".join(f"{key}={value.strip()}" for key, value in members.items())
    assert len(state) <= MAX_STATE_CHARACTERS
    sent = new_trace([(b"traceparent", PARENT), (b"tracestate", state.encode())])
    received = new_trace([(name.encode(), value.encode()) for name, value in headers_for(sent).items()])
    assert (sent.trace_id, sent.span_id, state) == (received.trace_id, received.parent_id, received.state)


@pytest.mark.parametrize(("lower_half", "taken"), [("0" * 16, True), ("3" + "f" * 15, True), ("4" + "0" * 15, False)])
def test_a_share_of_the_traces_is_taken_by_the_lower_half_of_their_ids(lower_half: str, *, taken: bool) -> None:
    """As OpenTelemetry has it, so that all services record the same ones; of all and of none, without exception."""
    trace_id = "f" * 16 + lower_half
    assert taken == Sampling(ratio=0.25).takes(trace_id)
    assert (True, False) == (Sampling(ratio=1.0).takes("f" * 32), Sampling(ratio=0.0).takes("f" * 16 + "0" * 16))


def test_a_new_trace_is_recorded_as_the_sampling_says() -> None:
    """Whoever comes without a trace."""
    assert new_trace([], Sampling(ratio=1.0)).sampled
    assert not new_trace([], Sampling(ratio=0.0)).sampled


@pytest.mark.parametrize("parent_decides", [True, False])
def test_the_caller_decides_about_its_own_trace_unless_told_otherwise(*, parent_decides: bool) -> None:
    """A trace that misses its middle helps nobody."""
    sampling = Sampling(ratio=0.0, parent_decides=parent_decides)
    assert parent_decides == new_trace([(b"traceparent", PARENT)], sampling).sampled
