"""How a stream ends for its client and for the meter: usage, completeness, errors."""

import json
from typing import Any

import pytest

from gateway.errors import UpstreamInvalid, UpstreamTruncated
from gateway.price import Usage
from tests.unit.gateway.wire.chat_stream import (
    COUNTS,
    DONE,
    HELLO,
    MORE,
    ROLE,
    STOP,
    USAGE,
    chunk,
    event,
    payloads,
    view,
)

# ---- usage ----------------------------------------------------------------------------------------------------------

LAST = chunk({"content": "!"}, finish="stop")
LAST_WITH_USAGE = chunk({"content": "!"}, finish="stop", usage=USAGE)
USAGE_SHAPES = {
    "choices empty": [LAST, event({"id": "c", "model": "m", "choices": [], "usage": USAGE})],
    "choices missing": [LAST, event({"id": "c", "model": "m", "usage": USAGE})],
    "choices null": [LAST, event({"id": "c", "model": "m", "choices": None, "usage": USAGE})],
    "packed in the last content chunk": [LAST_WITH_USAGE],
    "packed and alone": [LAST_WITH_USAGE, event({"id": "c", "choices": [], "usage": USAGE})],
    "in every chunk": [chunk({"content": "a"}, usage={**USAGE, "completion_tokens": 1}), LAST_WITH_USAGE],
    "spaces in the JSON": [
        LAST,
        b'data: {"id": "c", "choices" : [], "usage" : ' + json.dumps(USAGE).encode() + b"}\n\n",
    ],
}


@pytest.mark.parametrize("with_done", [True, False])
@pytest.mark.parametrize("shape", USAGE_SHAPES)
def test_usage_is_always_counted_and_shown_once_if_asked_for(shape: str, with_done: bool) -> None:
    """As one trailing chunk with no choices, and in no other."""
    stream = ROLE + HELLO + b"".join(USAGE_SHAPES[shape]) + (DONE if with_done else b"")
    for include_usage in (True, False):
        look = view(include_usage=include_usage)
        *chunks, done = payloads(look.feed(stream) + look.end())
        assert "[DONE]" == done
        assert COUNTS == look.usage
        if include_usage:
            last = chunks.pop()
            assert ([], USAGE) == (last["choices"], last["usage"])
        assert all(shown["choices"] and "usage" not in shown for shown in chunks)


def test_a_chunk_loses_its_usage_and_nothing_else() -> None:
    """Numbers keep their spelling."""
    look = view()
    given_ = (
        b'data: {"id":"c","usage":{"prompt_tokens":1},"choices":[{"index":0,"delta":{"content":"x"}}],"t":1.50}\n\n'
    )
    assert given_.replace(b'"usage":{"prompt_tokens":1},', b"") == look.feed(given_)
    assert Usage(prompt_tokens=1) == look.usage


# ---- endings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [STOP, DONE, STOP + DONE])
def test_a_finish_or_an_end_mark_completes_the_answer(ending: bytes) -> None:
    """One of the two is enough, and the client gets its end mark in any case."""
    look = view()
    out = look.feed(ROLE + HELLO + ending) + look.end()
    assert out.endswith(DONE)
    assert 1 == out.count(DONE)
    assert ("stop" if STOP in ending else "") == look.finish_reason


@pytest.mark.parametrize("stream", [ROLE, ROLE + HELLO, ROLE + HELLO + STOP[:-1], ROLE + HELLO + DONE[:-1], ROLE[:9]])
def test_an_end_without_either_is_a_truncation(stream: bytes) -> None:
    """A clean close does not make an answer whole, nor does half an event."""
    look = view()
    look.feed(stream)
    with pytest.raises(UpstreamTruncated):
        look.end()


EMPTY_ENVELOPE = b'data: {"id":"a","choices":null}\n\n'


@pytest.mark.parametrize("stream", [b"", b": ping\n\n", b"\n\n", DONE, EMPTY_ENVELOPE, EMPTY_ENVELOPE + DONE])
def test_a_stream_without_any_choice_is_no_answer(stream: bytes) -> None:
    """Not even where it says that it is done."""
    look = view()
    look.feed(stream)
    with pytest.raises(UpstreamInvalid):
        look.end()


def test_all_choices_have_to_finish() -> None:
    """One of two is half an answer."""
    look = view(choices=2)
    look.feed(HELLO + STOP)
    with pytest.raises(UpstreamTruncated):
        look.end()
    assert DONE == look.feed(chunk(index=1, finish="length")).removeprefix(chunk(index=1, finish="length")) + look.end()


def test_the_first_reason_to_finish_is_the_answers() -> None:
    """Of several choices."""
    look = view(choices=2)
    look.feed(STOP + chunk(index=1, finish="length"))
    assert "stop" == look.finish_reason


def test_after_a_finish_half_an_event_does_not_matter() -> None:
    """The answer is complete, what was to follow is not missed."""
    look = view()
    look.feed(HELLO + STOP + b'data: {"cho')
    assert DONE == look.end()


def test_nothing_is_owed_twice() -> None:
    """The end comes once."""
    look = view()
    look.feed(HELLO + STOP)
    assert DONE == look.end()
    assert b"" == look.end()


def test_after_the_end_mark_everything_is_ignored() -> None:
    """In the same read and in later ones."""
    look = view()
    assert HELLO + DONE == look.feed(HELLO + DONE + MORE + b"data: junk\n\n")
    assert b"" == look.feed(event({"error": {"message": "late"}}))
    assert b"" == look.end()
    assert look.error is None


# ---- errors in the stream -------------------------------------------------------------------------------------------

ERRORS = {
    "a top-level error": event({"error": {"message": "no memory at http://10.0.0.7:8000/x", "type": "oom", "code": 7}}),
    "empty choices and an error": event({"choices": [], "error": {"message": "no memory", "type": "oom", "code": "7"}}),
    "choices and an error": chunk(finish="error", error={"message": "no memory", "type": "oom", "code": "7"}),
    "a named event": b'event: error\ndata: {"error":{"message":"no memory","type":"oom","code":"7"}}\n\n',
    "a named event, bare": b'event: error\ndata: {"message":"no memory","type":"oom","code":"7"}\n\n',
}


@pytest.mark.parametrize("shape", ERRORS)
def test_an_error_in_the_stream_ends_it_after_what_came_before(shape: str) -> None:
    """Its message and class survive, our hosts do not."""
    look = view()
    assert HELLO + MORE == look.feed(HELLO + MORE + ERRORS[shape] + MORE + DONE)
    assert look.error is not None
    assert look.error.message.startswith("no memory")
    assert "10.0.0.7" not in look.error.message
    assert ("oom", "7") == (look.error.upstream_type, look.error.upstream_code)
    assert b"" == look.feed(MORE) + look.end()


@pytest.mark.parametrize("error", [None, {}, "", []])
def test_an_empty_error_is_none(error: Any) -> None:
    """Some upstreams send the field always."""
    look = view()
    said = chunk({"content": "x"}, error=error)
    assert said == look.feed(said)
    assert look.error is None


@pytest.mark.parametrize("data", [b"junk", b"[]", b"1", b'{"choices":1}', b'{"choices":[1]}', b'{"a":' * 100_000, b"{"])
def test_an_event_that_is_no_chunk_is_no_answer(data: bytes) -> None:
    """The client never sees it."""
    with pytest.raises(UpstreamInvalid):
        view().feed(b"data: " + data + b"\n\n")
