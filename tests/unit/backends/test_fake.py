import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from backends._http import UpstreamNotFound
from backends.fake import Fake
from gateway.errors import (
    ConfigurationError,
    UpstreamError,
    UpstreamFailed,
    UpstreamInvalid,
    UpstreamRateLimited,
    UpstreamTruncated,
    UpstreamUnreachable,
)
from gateway.ports import Surroundings
from gateway.price import Usage
from gateway.rules.plugins import build
from gateway.types import Call, Operation


def _build(**parameters: Any) -> Fake:
    return build("backend", {"use": "fake", **parameters}, where="backends.x")


async def _started(surroundings: Callable[..., Surroundings], clock: Any = None, **parameters: Any) -> Fake:
    fake = _build(**parameters)
    await fake.start("x", surroundings(clock=clock))
    return fake


@pytest.mark.parametrize("chunk_bytes", [0, 1, 7, 1000])
@pytest.mark.parametrize("operation", [Operation.CHAT, Operation.COMPLETION])
async def test_the_text_arrives_however_it_is_cut(
    surroundings: Any, make_call: Any, recording_sink: Any, operation: Operation, chunk_bytes: int
) -> None:
    """The answer is the text, in every endpoint's own form and in pieces of any size."""
    fake = await _started(surroundings, text="Grüße, 世界!", chunk_bytes=chunk_bytes)
    call = make_call(operation, stream=True, n=2)
    sink = recording_sink(call)
    finish = await fake.send(call, sink)
    assert {0: "Grüße, 世界!", 1: "Grüße, 世界!"} == sink.texts
    assert ("stop", 4) == (finish.reason, finish.usage.output_tokens)


@pytest.mark.parametrize("stream", [True, False])
async def test_max_tokens_shortens_the_answer(
    surroundings: Any,
    make_call: Any,
    recording_sink: Any,
    stream: bool,
) -> None:
    """An answer that would be longer ends at ``max_tokens`` and says so."""
    fake = await _started(surroundings, text="a b", tokens=5)
    call = make_call(stream=stream, max_tokens=3)
    sink = recording_sink(call)
    finish = await fake.send(call, sink)
    assert ({0: "a b a"}, "length") == (sink.texts, finish.reason)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("usage", "said"), [("given", True), ("in_last_chunk", True), ("missing", False)])
async def test_where_usage_is_said(
    surroundings: Any,
    make_call: Any,
    recording_sink: Any,
    stream: bool,
    usage: str,
    said: bool,
) -> None:
    """Token counts come in each of the ways that providers have, or not at all."""
    fake = await _started(surroundings, text="a b c", usage=usage)
    call = make_call(stream=stream)
    finish = await fake.send(call, recording_sink(call))
    expected = Usage(prompt_tokens=max(call.request.prompt_bytes // 4, 1), output_tokens=3)
    assert (expected if said else None) == finish.usage


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"kind": "refuse"}, UpstreamUnreachable),
        ({"kind": "status", "status": 429, "retry_after_s": 2}, UpstreamRateLimited),
        ({"kind": "status", "status": 404}, UpstreamNotFound),
        ({"kind": "error", "after_chunks": 0}, UpstreamFailed),
        ({"kind": "garbage"}, UpstreamInvalid),
        ({"kind": "empty"}, UpstreamInvalid),
        ({"kind": "reset", "after_chunks": 1}, UpstreamTruncated),
    ],
)
async def test_each_fault_is_the_error_that_a_real_upstream_would_cause(
    surroundings: Any,
    make_call: Any,
    recording_sink: Any,
    stream: bool,
    fault: dict[str, Any],
    expected: type[UpstreamError],
) -> None:
    """A scripted fault comes out as the class that the same fault of a real upstream has, with the backend's name."""
    fake = await _started(surroundings, fail=[fault])
    call = make_call(stream=stream)
    with pytest.raises(expected) as caught:
        await fake.send(call, recording_sink(call))
    assert "x" == caught.value.backend
    assert fault.get("retry_after_s") == caught.value.retry_after_s


@pytest.mark.parametrize(("repeat", "expected"), [(False, "-++++"), (True, "-+-+-")])
async def test_faults_come_in_their_order(
    surroundings: Any,
    make_call: Any,
    recording_sink: Any,
    repeat: bool,
    expected: str,
) -> None:
    """One fault a call, nothing for null; after the last all is well, or they begin anew."""
    fake = await _started(surroundings, fail=[{"kind": "refuse"}, None], repeat=repeat)
    actual = ""
    for _ in expected:
        call = make_call()
        try:
            await fake.send(call, recording_sink(call))
            actual += "+"
        except UpstreamUnreachable:
            actual += "-"
    assert expected == actual


async def test_the_pace_is_the_clocks(surroundings: Any, make_call: Any, recording_sink: Any, hand_clock: Any) -> None:
    """The first token and the tokens after it come when the clock says, not before."""
    fake = await _started(surroundings, clock=hand_clock, text="a b", first_token_s=2.0, seconds_per_token=0.5)
    call = make_call(stream=True)
    sink = recording_sink(call)
    sending = asyncio.ensure_future(fake.send(call, sink))
    await hand_clock.asleep.wait()
    assert not sink.begun.is_set()
    hand_clock.advance(2.0)
    await sink.pushed.wait()
    while not sending.done():
        hand_clock.advance(0.5)
        await asyncio.sleep(0)
    assert {0: "a b"} == sink.texts
    assert [2.0, 0.5] == hand_clock.slept_s[:2]


@pytest.mark.parametrize("fault", [{"kind": "hang"}, {"kind": "stall", "after_chunks": 2}])
async def test_a_silent_call_is_closed_by_cancelling(
    surroundings: Any, make_call: Any, recording_sink: Any, fault: dict[str, Any]
) -> None:
    """A call that hangs or stalls is open until it is cancelled, and then no longer."""
    fake = await _started(surroundings, fail=[fault])
    call: Call = make_call(stream=True)
    sink = recording_sink(call)
    sending = asyncio.ensure_future(fake.send(call, sink))
    if fault["kind"] == "stall":
        await sink.pushed.wait()
    else:
        await asyncio.sleep(0)
    assert (1, 0) == (fake.open_calls, fake.closed_calls)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert (1, 1) == (fake.open_calls, fake.closed_calls)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"text": "  "}, "must have a word"),
        ({"tokens": 0}, "at least 1"),
        ({"first_token_s": -1}, "must not be negative"),
        ({"usage": "maybe"}, "usage"),
        ({"fail": [{"kind": "explode"}]}, "fail"),
        ({"fail": [{"kind": "cut", "afterchunks": 1}]}, "afterchunks"),
    ],
)
def test_a_mistake_in_the_script_is_told(parameters: dict[str, Any], words: str) -> None:
    """A script that cannot be played is refused when the file is read."""
    with pytest.raises(ConfigurationError, match=words):
        _build(**parameters)
