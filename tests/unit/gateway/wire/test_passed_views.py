from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import UpstreamError, UpstreamFailed, UpstreamInvalid, UpstreamRateLimited, UpstreamTruncated
from gateway.price import Usage
from gateway.types import Arrival, ChatRequest, Operation, TraceContext
from gateway.units import Units, Work
from gateway.wire.passed_views import PassedBytes, PassedEvents, PassedText, PassedWhole

_ARRIVAL = Arrival(
    id="r",
    operation=Operation.SPEECH,
    tenant="t",
    received_s=1.0,
    received_unix_s=2.0,
    trace=TraceContext(trace_id="0" * 32, span_id="0" * 16),
)
SPOKEN, DRAWN = Units(work=Work.SPEAKING, characters=5), Units(work=Work.DRAWING, images=2)


def _request(units: Units = SPOKEN) -> ChatRequest:
    return ChatRequest(arrival=_ARRIVAL, model="m", units=units)


def _events(units: Units = SPOKEN, most: int = 1 << 20) -> PassedEvents:
    return PassedEvents(_request(units), max_event_bytes=most)


def _all_of(view: PassedEvents, sent: bytes) -> bytes:
    return view.feed(sent) + view.end()


SPEECH = (
    b": hello\n\n"
    b'event: speech.audio.delta\ndata: {"type":"speech.audio.delta","audio":"AAAA"}\n\n'
    b'id: 7\ndata: {"type":"speech.audio.done","usage":{"input_tokens":3,"output_tokens":9,"total_tokens":12}}\n\n'
)
COUNTED = Usage(
    prompt_tokens=3,
    output_tokens=9,
    units=Units(work=Work.SPEAKING, characters=5, counted=True, output_audio_tokens=9),
)


@pytest.mark.parametrize("sent", [SPEECH, SPEECH.replace(b"\n", b"\r\n"), SPEECH.replace(b"\n", b"\r")])
def test_a_stream_goes_on_byte_for_byte_whatever_the_cuts(sent: bytes) -> None:
    """Comments, names and ids too; and what it says that it took does not depend on the network."""
    for at in range(len(sent) + 1):
        view = _events()
        assert sent == view.feed(sent[:at]) + view.feed(sent[at:]) + view.end()
        assert (COUNTED, True, True) == (view.usage, view.done, view.visible)


@given(
    data=st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b"data: {}", b"data: 1", b": x", b"event: a"]), max_size=12)
)
def test_no_stream_breaks_the_look(data: list[bytes]) -> None:
    """It goes on as it came, or one class of error tells why not."""
    whole, together = _events(), b"".join(data)
    try:
        passed = b"".join(map(whole.feed, data)) + whole.end()
    except UpstreamError:
        return
    assert together == passed


def test_nothing_is_shown_before_the_first_event() -> None:
    """Until then another backend may answer."""
    view = _events()
    view.feed(b': comments\n\nevent: x\ndata: {"type":"speech.audio.')
    assert not view.visible
    view.feed(b'delta"}\n\n')
    assert view.visible


def test_other_servers_end_with_a_mark() -> None:
    """As vLLM does, whose last chunk but that has the tokens."""
    view = _events(Units(work=Work.LISTENING))
    view.feed(b'data: {"object":"transcription.chunk","choices":[]}\n\n')
    view.feed(b'data: {"object":"transcription.chunk","choices":[],"usage":{"prompt_tokens":5,"total_tokens":6}}\n\n')
    assert not view.done
    view.feed(b"data: [DONE]\n\n")
    assert (True, 5) == (view.done, view.usage.prompt_tokens if view.usage else None)


def test_of_several_pictures_each_says_what_it_took() -> None:
    """The sum is what was paid for, and those that came are those that count."""
    view = _events(DRAWN)
    event = (
        b'data: {"type":"image_generation.completed","b64_json":"AA","usage":{"input_tokens":10,"output_tokens":100,'
        b'"input_tokens_details":{"image_tokens":4,"text_tokens":6}}}\n\n'
    )
    view.feed(b'data: {"type":"image_generation.partial_image","b64_json":"AA"}\n\n')
    assert not view.done
    view.feed(event * 2)
    expected = Units(work=Work.DRAWING, images=2, counted=True, image_tokens=8, output_image_tokens=200)
    assert Usage(prompt_tokens=20, output_tokens=200, units=expected) == view.usage


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"", UpstreamInvalid),
        (b": only a comment\n\n", UpstreamInvalid),
        (b'data: {"type":"speech.audio.delta"}\n\n', UpstreamTruncated),
        (b'data: {"type":"speech.audio.delta"}\n\ndata: {"type":"speech.audio.d', UpstreamInvalid),
        (b"data: <html>\n\n", UpstreamInvalid),
        (b"data: " + b"x" * 2000, UpstreamInvalid),
    ],
)
def test_what_is_no_answer_is_told(sent: bytes, error: type[UpstreamError]) -> None:
    """Nothing at all, half of it, or something else."""
    with pytest.raises(error):
        _all_of(_events(most=1000), sent)


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (b'{"type":"error","error":{"message":"broken"}}', UpstreamFailed),
        (b'{"error":{"code":"rate_limit_exceeded"}}', UpstreamRateLimited),
    ],
)
def test_an_error_in_a_stream_ends_it(event: bytes, error: type[UpstreamError]) -> None:
    """What came before it goes out, it does not: the client is told in our own words."""
    view = _events()
    before = b'data: {"type":"speech.audio.delta"}\n\n'
    assert before == view.feed(before + b"data: " + event + b"\n\n" + SPEECH)
    assert isinstance(view.error, error)
    assert b"" == view.feed(SPEECH) + view.end()


def test_an_error_without_its_blank_line_is_one_too() -> None:
    """It is found at the end."""
    view = _events()
    view.feed(b'data: {"error":{"message":"broken"}}')
    with pytest.raises(UpstreamFailed):
        view.end()


@pytest.mark.parametrize("body", [b"", b"[]", b"x", b'{"a":', b'{"error":{"message":"no"}}', b'{"object":"error"}'])
def test_a_whole_answer_that_is_none_is_told(body: bytes) -> None:
    """Whatever its status was."""
    with pytest.raises(UpstreamError):
        PassedWhole(_request()).take(body)


def test_text_is_an_answer_even_when_nothing_was_said() -> None:
    """Of silence there are no subtitles."""
    view: Any = PassedText(_request())
    assert (b"", Usage(units=SPOKEN)) == (view.take(b""), view.usage)


def test_sound_goes_on_as_it_comes() -> None:
    """Its end is the connection's to tell; nothing at all is no sound."""
    view = PassedBytes(_request())
    assert b"\x00\xff" == view.feed(b"\x00") + view.feed(b"\xff")
    assert (b"", Usage(units=SPOKEN), True) == (view.end(), view.usage, view.done)
    with pytest.raises(UpstreamInvalid, match="empty"):
        PassedBytes(_request()).end()
