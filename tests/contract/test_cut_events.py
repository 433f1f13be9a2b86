"""An upstream that cuts an event short inside its JSON is found out, though events are passed on unparsed."""

from typing import Any

import msgspec
import pytest

from gateway.errors import UpstreamInvalid
from gateway.types import Arrival, Operation, TraceContext
from gateway.wire.formats import FORMATS
from tests.contract.answer_scripts import SCRIPTS

_SAID = [{"role": "user", "content": "hi"}]
BODIES: dict[Operation, dict[str, Any]] = {
    Operation.CHAT: {"model": "m", "messages": _SAID},
    Operation.COMPLETION: {"model": "m", "prompt": "hi"},
    Operation.MESSAGES: {"model": "m", "max_tokens": 9, "messages": _SAID},
    Operation.RESPONSE: {"model": "m", "input": "hi"},
    Operation.OLLAMA_CHAT: {"model": "m", "messages": _SAID},
    Operation.OLLAMA_GENERATE: {"model": "m", "prompt": "hi"},
}
_MORE = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"said"}\n\n'
SAID: dict[Operation, tuple[bytes, bytes]] = {
    **{operation: (script.opened() + script.text("x"), script.text("said")) for operation, script in SCRIPTS.items()},
    Operation.RESPONSE: (b'event: response.created\ndata: {"type":"response.created"}\n\n' + _MORE, _MORE),
}
"""What was said before, and one more event."""


@pytest.fixture(params=SAID, ids=str)
def operation(request: pytest.FixtureRequest) -> Operation:
    """Each endpoint that streams."""
    chosen: Operation = request.param
    return chosen


def look_at(operation: Operation) -> Any:
    """A fresh look at a stream of it."""
    trace = TraceContext(trace_id="0" * 32, span_id="0" * 16)
    knocked = Arrival(id="r", operation=operation, tenant="t", received_s=1.0, received_unix_s=2.0, trace=trace)
    wire = FORMATS[operation]
    request = wire.read(knocked, msgspec.json.encode({**BODIES[operation], "stream": True}))
    return wire.stream(request, max_event_bytes=10_000)


@pytest.mark.parametrize("beside", ["alone", "first", "last"])
@pytest.mark.parametrize("lines", [b"\n", b"\r\n"])
def test_a_cut_event_never_reaches_the_client(operation: Operation, beside: str, lines: bytes) -> None:
    """However it comes: alone or in one read with whole ones, in either form of line ends."""
    before, more = SAID[operation]
    cut = more[: more.index(b"said") + 2] + b"\n\n"
    look = look_at(operation)
    assert before == look.feed(before.replace(b"\n", lines))
    read = {"alone": cut, "first": cut + more, "last": more + cut}[beside]
    with pytest.raises(UpstreamInvalid):
        look.feed(read.replace(b"\n", lines))


def test_whole_events_with_spaces_behind_them_pass(operation: Operation) -> None:
    """JSON allows them."""
    before, more = SAID[operation]
    look = look_at(operation)
    look.feed(before)
    assert b"said" in look.feed(more.replace(b"}\n\n", b"} \n\n"))
