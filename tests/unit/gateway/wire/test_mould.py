"""Events that are known by one that was looked into: what the client gets does not depend on it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.chat_reader import ChatStreamReader
from gateway.wire.deltas import Delta, TextDelta
from gateway.wire.mould import mould_of, text_mould_of
from gateway.wire.openai_stream import OpenAIStream

WORD = b'{"id":"c","choices":[{"delta":{"content":"word"},"finish_reason":null}]}'
PADDED = WORD[:-1] + b',"obfuscation":"aB1"}'


def framed(data: bytes) -> bytes:
    """The event."""
    return b"data: " + data + b"\n\n"


def chunk(text: str, field: str = "content", *, obfuscation: str = "", finish: str | None = None) -> bytes:
    """One event of a chat."""
    padding = {"obfuscation": obfuscation} if obfuscation else {}
    choices = [{"index": 0, "delta": {field: text} if text else {}, "finish_reason": finish}]
    return framed(json.dumps({"id": "c", "choices": choices, "usage": None, **padding}).encode())


def look() -> OpenAIStream:
    """A look at a stream."""
    return OpenAIStream(choices=1, include_usage=False, max_event_bytes=1 << 20)


def test_events_that_differ_in_their_text_alone_are_alike() -> None:
    """One or many in a read; what is behind the last of them, a cut event or another one, is not."""
    mould = mould_of(WORD, b'"word"')
    assert mould is not None
    others = [framed(WORD.replace(b"word", text)) for text in (b"w", b"", rb"a\nb", "ü".encode())]
    assert [(len(other), max(len(other) - len(framed(WORD)) + 4, 1)) for other in others] == [
        mould.fits(other) for other in others
    ]
    read = b"".join(others)
    assert mould.fits(read)[0] == len(read)
    for behind in (framed(b"[DONE]"), framed(WORD)[:30], framed(WORD)[:-1], framed(b'{"usage":{}}')):
        assert (len(read), len(read) - 4 * (len(framed(WORD)) - 4)) == mould.fits(read + behind)


@pytest.mark.parametrize(
    "other",
    [
        framed(WORD.replace(b"null", b'"stop"')),
        framed(WORD.replace(b'"c"', b'"d"')),
        framed(WORD.replace(b"word", b'","usage":{"x":1},"y":"')),
        framed(WORD.replace(b"word", rb"\"")),
        framed(WORD.replace(b"word", b"a\rb")),
        framed(WORD.replace(b"word", b"a\n\ndata: b")),
        framed(WORD)[:-1],
        framed(WORD)[:30],
        b": ping\n\n",
    ],
)
def test_events_with_anything_else_are_not(other: bytes) -> None:
    """Alone, and between others that are alike."""
    mould = mould_of(WORD, b'"word"')
    assert mould is not None
    assert (0, 0) == mould.fits(other)
    assert mould.fits(framed(WORD) + other + framed(WORD))[0] in {0, len(framed(WORD))}


@pytest.mark.parametrize(
    "shape",
    [
        b'{"text":"word"}',
        b'{"text":"word"} ',
        b'{"a":[{"text":"word"}]}',
        b'{"text":"word","b":[{"c":[{}]}]}',
        b'{"b":[{"c":[{}]}],"text":"word"}',
    ],
)
def test_events_that_come_together_are_alike_wherever_their_text_stands(shape: bytes) -> None:
    """At the very end, too, and where they end as something in their middle does; one that is cut off is no event."""
    mould = mould_of(shape, b'"word"')
    assert mould is not None
    read = b"".join(framed(shape.replace(b"word", text)) for text in (b"w", b"", b"}]}", b"words"))
    assert (len(read), 9) == mould.fits(read)
    assert (len(read), 9) == mould.fits(read + framed(shape)[:-1])
    assert (0, 0) == mould.fits(read + framed(shape.replace(b"text", b"next")) + framed(shape))


def test_a_second_string_may_differ_too() -> None:
    """Which OpenAI puts there so that the length of an event does not tell its text."""
    mould = mould_of(PADDED, b'"word"', b'"aB1"')
    assert mould is not None
    read = framed(PADDED) + framed(PADDED.replace(b"word", b"words").replace(b"aB1", b"x"))
    assert (len(read), 4 + 3) == mould.fits(read)
    assert (0, 0) == mould.fits(framed(WORD))


@pytest.mark.parametrize(
    ("data", "text", "second"),
    [(WORD, b'"c"', b'"c"'), (WORD.replace(b"word", b"c"), b'"c"', b""), (PADDED, b'"aB1"', b'"word"')],
)
def test_what_cannot_be_found_for_certain_makes_no_mould(data: bytes, text: bytes, second: bytes) -> None:
    """The next event is looked into, and the one after that."""
    assert mould_of(data, text, second) is None


TEXTS = st.one_of(
    st.sampled_from(["word", '"', "\\", '"usage":{"x":1}', "}\n\ndata: {", "\r\n", "c", ""]), st.text(max_size=6)
)
EVENTS = st.builds(
    chunk,
    TEXTS,
    st.sampled_from(["content", "content", "reasoning"]),
    obfuscation=st.sampled_from(["", "", "aB1", "x"]),
)


@given(events=st.lists(EVENTS, min_size=1, max_size=30), sizes=st.lists(st.integers(1, 700), min_size=1))
def test_what_goes_out_is_what_came_however_it_is_cut(events: list[bytes], sizes: list[int]) -> None:
    """Texts with all that means something elsewhere, other fields, and padding that comes and goes."""
    sent, out, view = b"".join([*events, chunk("", finish="stop")]), b"", look()
    at, turn = 0, 0
    while at < len(sent):
        step = sizes[turn % len(sizes)]
        out += view.feed(sent[at : at + step])
        at, turn = at + step, turn + 1
    assert (sent, "stop") == (out, view.finish_reason)


@pytest.mark.parametrize(
    "odd", [b'{"choices":{}}', b'{"choices":[null]}', b'{"choices":[{"delta":"x"}]}', b'{"id":"\\ud800"}', b'{"a":}']
)
@pytest.mark.parametrize("per_read", [1, 2])
def test_an_event_that_is_none_of_ours_goes_on_like_others(odd: bytes, per_read: int) -> None:
    """Once something is visible: whether one like it is known yet makes no difference, and what follows it is seen."""
    events = [chunk("word"), chunk("word", "reasoning"), framed(odd), chunk("word"), framed(odd) * 2, chunk("x")] * 3
    events.append(chunk("", finish="stop"))
    reads = [b"".join(events[at : at + per_read]) for at in range(0, len(events), per_read)]
    view = look()
    assert (b"".join(reads), "stop") == (b"".join(map(view.feed, reads)), view.finish_reason)


def test_after_an_error_nothing_is_looked_at() -> None:
    """However long it is: what is told is the error, and not what came in one read with it."""
    view = OpenAIStream(choices=1, include_usage=False, max_event_bytes=300)
    assert b"" == view.feed(chunk("", finish="error") + chunk("x" * 300))
    assert "the upstream broke its answer off" == str(view.error)


def test_the_text_of_an_event_that_is_alike_is_at_hand() -> None:
    """As JSON; where it is another event, or one that says nothing, there is none."""
    mould = text_mould_of(WORD, b'"word"')
    assert mould is not None
    assert rb'"a\nb"' == mould.text(WORD.replace(b"word", rb"a\nb"))
    others = [WORD.replace(b"word", text) for text in (b"", rb"\"", b'","x":"')]
    assert [None] * 4 == [mould.text(other) for other in (*others, WORD.replace(b"null", b'"stop"'))]


@pytest.mark.parametrize("data", [WORD.replace(b"word", b"c"), WORD.replace(b'"c"', rb'"\u0063"')])
def test_a_text_that_cannot_be_found_for_certain_makes_no_mould_either(data: bytes) -> None:
    """There are two strings that are alike, or some are written with escapes, and might be."""
    assert text_mould_of(data, b'"c"' if b"\\" not in data else b'"word"') is None


@given(events=st.lists(EVENTS, min_size=1, max_size=20), size=st.integers(1, 700))
def test_what_is_read_does_not_depend_on_what_came_before(events: list[bytes], size: int) -> None:
    """A reader that knows how events look reads what one does that looks into each."""
    stream = b"".join([*events, chunk("word", finish="stop"), framed(b"[DONE]")])
    knowing, each = ChatStreamReader(), ChatStreamReader()
    each._moulds_left = 0
    read: list[Delta] = []
    for at in range(0, len(stream), size):
        read += knowing.feed(stream[at : at + size])
    assert each.feed(stream) == read
    said = [json.loads(event[len(b"data: ") :])["choices"][0]["delta"].get("content", "") for event in events]
    assert "".join(said) + "word" == "".join(delta.text for delta in read if isinstance(delta, TextDelta))


def test_an_event_that_is_named_an_error_is_one_however_it_looks() -> None:
    """Its name goes before its likeness."""
    reader = ChatStreamReader()
    said = reader.feed(framed(WORD) * 3 + b"event: error\n" + framed(WORD) * 2)
    assert ["word"] * 3 == [delta.text for delta in said if isinstance(delta, TextDelta)]
    assert reader.error is not None


OTHERS = [
    chunk("word", finish="stop"),
    chunk("word").replace(b'"usage": null', b'"usage": {"prompt_tokens": 3, "completion_tokens": 5}'),
    chunk("word").replace(b'"index": 0', b'"index": 1'),
    chunk("word").replace(b"\n", b"\r\n"),
    chunk("word").replace(b"data: ", b"event: x\ndata:"),
    chunk("word").replace(b"\n\n", b"\n\n: ping\n\n"),
    *(framed(it) for it in (b'{"choices":{}}', b'{"choices":[null]}', b'{"a":}', b'{"choices":[],"usage":{}}')),
    framed(b'{"error":{"message":"no"}}'),
    framed(b"[DONE]"),
]


@given(events=st.lists(EVENTS | st.sampled_from(OTHERS), max_size=20), sizes=st.lists(st.integers(1, 900), min_size=1))
def test_what_was_known_makes_no_difference(events: list[bytes], sizes: list[int]) -> None:
    """Events of all kinds, cut anywhere: bytes, counts and end are those of a look that knows none from another."""
    sent, knowing, each = b"".join([chunk("word"), *events]), look(), look()
    each._moulds_left = 0
    outs, at, turn = [b"", b""], 0, 0
    while at < len(sent):
        read = sent[at : at + sizes[turn % len(sizes)]]
        outs = [out + view.feed(read) for out, view in zip(outs, (knowing, each), strict=True)]
        at, turn = at + len(read), turn + 1
    told = [(view.usage, view.finish_reason, view.done, str(view.error)) for view in (knowing, each)]
    assert (outs[1], told[1]) == (outs[0], told[0])
