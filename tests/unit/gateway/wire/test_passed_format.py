from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import InvalidRequest
from gateway.types import Arrival, ChatRequest, Operation, TraceContext
from gateway.units import Units, Work
from gateway.wire.formats import FORMATS
from gateway.wire.passages import PASSAGES, UPLOADS
from gateway.wire.passed_forecast import foreseen

TRACE = TraceContext(trace_id="0" * 32, span_id="0" * 16)
FORM = "multipart/form-data; boundary=b"


def arrival(operation: Operation, content_type: str = "") -> Arrival:
    """Who asks; forms come with their type."""
    headers = (("content-type", content_type),) if content_type else ()
    return Arrival(
        id="r",
        operation=operation,
        tenant="t",
        received_s=1.0,
        received_unix_s=2.0,
        trace=TRACE,
        format_headers=headers,
    )


def read(operation: Operation, **fields: Any) -> ChatRequest:
    """The request in a JSON body."""
    return FORMATS[operation].read(arrival(operation), msgspec.json.encode({"model": "m", **fields}))


def form(*parts: tuple[str, bytes, str]) -> bytes:
    """A form of names, contents and what stands behind the name."""
    head = b'--b\r\nContent-Disposition: form-data; name="%b"%b\r\n\r\n%b\r\n'
    return b"".join(head % (name.encode(), more.encode(), content) for name, content, more in parts) + b"--b--\r\n"


def read_form(operation: Operation, *parts: tuple[str, bytes, str]) -> ChatRequest:
    """The request in a form."""
    return FORMATS[operation].read(arrival(operation, FORM), form(*parts))


KNOWN: list[tuple[Callable[[], ChatRequest], Units]] = [
    (lambda: read(Operation.MODERATION, input="hi"), Units()),
    (lambda: read(Operation.SPEECH, input="héllo", voice="alloy"), Units(work=Work.SPEAKING, characters=5)),
    (lambda: read(Operation.IMAGE, prompt="x"), Units(work=Work.DRAWING, images=1)),
    (
        lambda: read(Operation.IMAGE, prompt="x", n=3, size="1024x1024", quality="hd"),
        Units(work=Work.DRAWING, images=3, size="1024x1024", quality="hd"),
    ),
    (
        lambda: read(Operation.IMAGE, prompt="x", n="many", size="auto", quality="a b"),
        Units(work=Work.DRAWING, images=1),
    ),
    (lambda: read(Operation.RERANK, query="q", documents=["a", {"text": "b"}]), Units(work=Work.RANKING, documents=2)),
    (lambda: read_form(Operation.TRANSCRIPTION, ("model", b"m", "")), Units(work=Work.LISTENING)),
    (
        lambda: read_form(Operation.IMAGE_EDIT, ("model", b"m", ""), ("n", b"2", ""), ("size", b"512x512", "")),
        Units(work=Work.DRAWING, images=2, size="512x512"),
    ),
]


@pytest.mark.parametrize(("request_of", "units"), KNOWN)
def test_what_can_be_known_beforehand(request_of: Callable[[], ChatRequest], units: Units) -> None:
    """How many and which kind, as far as the body says; nonsense is the upstream's to refuse."""
    assert units == request_of().units


@pytest.mark.parametrize(
    ("operation", "fields", "expected"),
    [
        (Operation.SPEECH, {"input": "x", "stream_format": "sse"}, True),
        (Operation.SPEECH, {"input": "x", "stream_format": "audio"}, False),
        (Operation.IMAGE, {"prompt": "x", "stream": True}, True),
        (Operation.IMAGE, {"prompt": "x", "stream": None}, False),
    ],
)
def test_whether_a_stream_is_asked_for(operation: Operation, fields: dict[str, Any], expected: bool) -> None:
    """Each operation has its own word for it."""
    assert expected is read(operation, **fields).stream


@pytest.mark.parametrize(("said", "expected"), [(b"true", True), (b"True", True), (b"false", False), (b"", False)])
def test_a_form_asks_for_a_stream_in_words(said: bytes, expected: bool) -> None:
    """As clients write it."""
    assert expected is read_form(Operation.TRANSCRIPTION, ("model", b"m", ""), ("stream", said, "")).stream


@pytest.mark.parametrize("operation", sorted(UPLOADS))
def test_an_operation_with_files_takes_json_too(operation: Operation) -> None:
    """By what the body says that it is."""
    assert read(operation, prompt="x", images=[{"image_url": "data:,"}]).form is None
    assert read_form(operation, ("model", b"m", ""), ("prompt", b"x", "")).form is not None


@pytest.mark.parametrize("operation", sorted(UPLOADS))
def test_a_form_that_nobody_announced_is_no_json(operation: Operation) -> None:
    """Its reader says so, as OpenAI's does."""
    with pytest.raises(InvalidRequest, match="not valid JSON"):
        FORMATS[operation].read(arrival(operation), form(("model", b"m", "")))


@pytest.mark.parametrize(
    ("operation", "body", "param"),
    [
        (Operation.SPEECH, {"input": "x"}, "model"),
        (Operation.SPEECH, {"model": "m"}, "input"),
        (Operation.SPEECH, {"model": 7, "input": "x"}, "model"),
        (Operation.IMAGE, {"model": "m"}, "prompt"),
        (Operation.RERANK, {"model": "m", "documents": ["a"]}, "query"),
        (Operation.MODERATION, {}, "input"),
        (Operation.MODERATION, {"input": "x", "api_base": "http://elsewhere"}, "api_base"),
    ],
)
def test_what_nobody_can_serve_is_refused_by_name(operation: Operation, body: dict[str, Any], param: str) -> None:
    """And no body says where it goes."""
    with pytest.raises(InvalidRequest) as caught:
        FORMATS[operation].read(arrival(operation), msgspec.json.encode(body))
    assert param == caught.value.param


def test_a_form_says_not_where_it_goes_either() -> None:
    """Refused as in JSON."""
    with pytest.raises(InvalidRequest) as caught:
        read_form(Operation.TRANSCRIPTION, ("model", b"m", ""), ("base_url", b"http://elsewhere", ""))
    assert "base_url" == caught.value.param
    with pytest.raises(InvalidRequest) as caught:
        read_form(Operation.TRANSCRIPTION, ("file", b"x", '; filename="a"'))
    assert "model" == caught.value.param


def test_a_moderation_may_leave_its_model_out() -> None:
    """It is OpenAI's then, and goes up as it came; another one is put in."""
    wire, body = FORMATS[Operation.MODERATION], b'{"input":"hi"}'
    request = wire.read(arrival(Operation.MODERATION), body)
    assert "omni-moderation-latest" == request.model
    assert body == wire.upstream_body(request, "omni-moderation-latest")
    assert b'{"input":"hi","model":"mine"}' == wire.upstream_body(request, "mine")


def test_texts_are_measured_and_files_are_not() -> None:
    """What a picture or a sound holds is nobody's to count here."""
    parts = [{"type": "text", "text": "four"}, {"type": "image_url", "image_url": {"url": "data:" + "x" * 99}}]
    assert 4 == read(Operation.MODERATION, input=parts).prompt_bytes
    assert 3 == read(Operation.RERANK, query="q", documents=["a", {"text": "b"}]).prompt_bytes


def test_what_it_will_weigh() -> None:
    """Pictures by OpenAI's table, sound by its usual bytes a second, documents by the hundred, speech by characters."""
    drawn = read(Operation.IMAGE, prompt="four", n=2, quality="high")
    heard = read_form(Operation.TRANSCRIPTION, ("model", b"m", ""), ("file", b"x" * 32_000, '; filename="a"'))
    ranked = read(Operation.RERANK, query="q", documents=["a"] * 101)
    spoken = read(Operation.SPEECH, input="x" * 900)
    forecasts = [foreseen(request, request.units or Units()) for request in (drawn, heard, ranked, spoken)]
    assert (1, 0) == (forecasts[0].prompt_tokens, forecasts[0].output_tokens_p90)
    assert [8320, 0, 0, 0] == [forecast.units.output_image_tokens for forecast in forecasts if forecast.units]
    assert [None, Decimal(2), None, None] == [forecast.units.audio_s for forecast in forecasts if forecast.units]
    assert [None, None, 2, None] == [forecast.units.searches for forecast in forecasts if forecast.units]
    assert [0, 20, 0, 0] == [forecast.units.audio_tokens for forecast in forecasts if forecast.units]
    assert [0, 0, 0, 1260] == [forecast.units.output_audio_tokens for forecast in forecasts if forecast.units]


def test_every_path_is_asked_for_once() -> None:
    """No two operations answer on the same one, and each is below an upstream's address."""
    paths = [path for passage in PASSAGES.values() for path in passage.paths]
    assert len(paths) == len(set(paths))
    assert all(passage.upstream_path.startswith("/") for passage in PASSAGES.values())


values: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(
    ["model", "input", "prompt", "query", "documents", "n", "size", "quality", "stream", "stream_format", "user", "new"]
)


@given(operation=st.sampled_from(sorted(PASSAGES)), fields=st.dictionaries(names, values, max_size=8))
def test_any_body_is_read_or_refused(operation: Operation, fields: dict[str, Any]) -> None:
    """And what is read goes on as it came, but for its model."""
    wire, body = FORMATS[operation], msgspec.json.encode(fields)
    try:
        request = wire.read(arrival(operation), body)
    except InvalidRequest:
        return
    assert request.units is not None
    known = foreseen(request, request.units).units
    assert known is not None
    assert known.output_image_tokens >= 0
    assert {**msgspec.json.decode(body), "model": "other"} == msgspec.json.decode(wire.upstream_body(request, "other"))
