"""One suite over the answers of every client format: what holds for one endpoint holds for all."""

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from gateway.errors import UpstreamFailed, UpstreamInvalid, UpstreamTruncated
from gateway.price import Usage
from gateway.types import OLLAMA, ChatRequest, Operation
from gateway.units import Units, Work
from gateway.wire.anthropic_count import count_body
from gateway.wire.format import Format
from gateway.wire.formats import FORMATS
from gateway.wire.openai_embeddings import embeddings_answer
from tests.contract.answer_scripts import COUNTS, SCRIPTS, OpenAIScript, Script

TEXT = 'a "usage": {} 日本語 👋 \\ud800 [DONE]'
VECTORS = embeddings_answer("m", [[0.5, -0.5], "AAAAPw=="], 5)
NEVER_STREAMED: dict[Operation, tuple[bytes, Usage]] = {
    Operation.EMBEDDING: (VECTORS, Usage(prompt_tokens=5)),
    Operation.COUNT_TOKENS: (count_body(5), Usage()),
    Operation.MODERATION: (b'{"results":[{}]}', Usage(units=Units())),
    Operation.TRANSCRIPTION: (
        b'{"text":"hi","duration":1.5}',
        Usage(units=Units(work=Work.LISTENING, audio_s=Decimal("1.5"))),
    ),
    Operation.IMAGE: (b'{"data":[{},{}]}', Usage(units=Units(work=Work.DRAWING, images=2))),
    Operation.RERANK: (
        b'{"results":[],"usage":{"total_tokens":5}}',
        Usage(prompt_tokens=5, units=Units(work=Work.RANKING, documents=2, counted=True)),
    ),
    Operation.OLLAMA_EMBED: (b'{"model":"m","embeddings":[[0.5]],"prompt_eval_count":5}', Usage(prompt_tokens=5)),
    Operation.OLLAMA_EMBEDDINGS: (b'{"embedding":[0.5],"prompt_eval_count":5}', Usage(prompt_tokens=5)),
}
"""Answers that hold no text, and what they say was used."""
ANTHROPIC = frozenset({Operation.MESSAGES, Operation.COUNT_TOKENS})
TELLING = ANTHROPIC | OLLAMA
"""Formats whose streams always have the counts, and whose errors have no code."""
streamed = pytest.mark.parametrize("operation", list(SCRIPTS), indirect=True)
"""For what is said of streams, which vectors and counts never are."""
asking = pytest.mark.parametrize(
    "operation", [operation for operation, script in SCRIPTS.items() if isinstance(script, OpenAIScript)], indirect=True
)
"""For formats whose clients ask for the counts of a stream."""


@pytest.fixture
def script(operation: Operation) -> Script:
    """Writes its answers."""
    return SCRIPTS[operation]


@pytest.fixture
def writer(operation: Operation) -> Any:
    """Writes the streams of those whose clients ask for the counts."""
    return OpenAIScript(operation).writer


def test_every_operation_has_its_format() -> None:
    """And says so itself."""
    assert list(Operation) == list(FORMATS)
    assert list(FORMATS) == [wire.operation for wire in FORMATS.values()]


@streamed
def test_a_stream_is_the_same_for_every_cut(
    operation: Operation, wire: Format, read: Callable[..., ChatRequest], script: Script
) -> None:
    """The client's bytes and the meter's counts do not depend on the network."""
    counts = COUNTS if operation in TELLING else None
    stream = b"".join((script.opened(), script.text(TEXT), script.text(TEXT), script.ended(), script.done()))
    events = () if operation in OLLAMA else (stream.replace(b"\n", b"\r"), b"\xef\xbb\xbf" + stream)
    for sent in (stream, stream.replace(b"\n", b"\r\n"), *events):
        for at in range(len(sent) + 1):
            look = wire.stream(read(stream=True))
            assert stream == look.feed(sent[:at]) + look.feed(sent[at:]) + look.end()
            assert (counts, "stop", "m", True) == (look.usage, look.finish_reason, look.model, look.visible)


@asking
@pytest.mark.parametrize("asked", [None, False, True])
@pytest.mark.parametrize("done", [True, False])
def test_usage_is_counted_always_and_shown_if_asked_for(
    asked: bool | None, done: bool, wire: Format, read: Callable[..., ChatRequest], writer: Any
) -> None:
    """Exactly once, as the last chunk; the upstream is asked in any case, beside the client's other options."""
    options = {"other": 1} if asked is None else {"other": 1, "include_usage": asked}
    request = read(stream=True, stream_options=options)
    sent = json.loads(wire.upstream_body(request, "there"))
    assert ({"other": 1, "include_usage": True}, "there") == (sent["stream_options"], sent["model"])
    look = wire.stream(request)
    answer = writer.text(0, TEXT) + writer.finish(0, "stop")
    out = look.feed(answer + writer.usage(COUNTS) + (writer.done() if done else b"")) + look.end()
    assert answer + (writer.usage(COUNTS) if asked else b"") + writer.done() == out
    assert COUNTS == look.usage


@asking
def test_usage_that_nobody_counted_is_estimated_for_who_asked(
    wire: Format, read: Callable[..., ChatRequest], writer: Any
) -> None:
    """The event has the answer's own envelope; the meter is left to say that the counts are no upstream's."""
    answer = writer.text(0, TEXT) + writer.finish(0, "stop")
    look = wire.stream(
        read(stream=True, stream_options={"include_usage": True}),
        estimate=lambda output_bytes: Usage(prompt_tokens=5, output_tokens=output_bytes),
    )
    out = look.feed(answer) + look.end()
    counted = Usage(prompt_tokens=5, output_tokens=look.output_bytes)
    assert answer + writer.usage(counted) + writer.done() == out
    assert (True, None) == (look.output_bytes >= len(TEXT), look.usage)
    silent = wire.stream(read(stream=True))
    assert answer + writer.done() == silent.feed(answer) + silent.end()


@asking
@pytest.mark.parametrize("options", [{}, {"stream_options": None}, {"stream_options": {}}])
def test_a_stream_without_options_asks_the_upstream_for_usage(
    options: dict[str, Any], wire: Format, read: Callable[..., ChatRequest]
) -> None:
    """A whole answer does not need to."""
    sent = json.loads(wire.upstream_body(read(stream=True, **options), "m"))
    assert {"include_usage": True} == sent["stream_options"]
    assert "stream_options" not in json.loads(wire.upstream_body(read(stream=False), "m"))


@streamed
def test_endings_are_told_apart(wire: Format, read: Callable[..., ChatRequest], script: Script) -> None:
    """A finish or an end mark is an end; a closed connection is none, and silence is no answer."""
    text, ended, done = script.opened() + script.text(TEXT), script.ended(), script.done()
    for ending in filter(None, (ended, done, ended + done)):
        look = wire.stream(read(stream=True))
        assert (text + ending).removesuffix(done) + done == look.feed(text + ending) + look.end()
    for stream, error in ((text, UpstreamTruncated), (text + ended[:-2], UpstreamTruncated), (b"", UpstreamInvalid)):
        look = wire.stream(read(stream=True))
        look.feed(stream)
        with pytest.raises(error):
            look.end()


@streamed
def test_an_error_in_a_stream_comes_after_what_was_delivered(
    operation: Operation, wire: Format, read: Callable[..., ChatRequest], script: Script
) -> None:
    """And what we then say is an event of its own that reads as the same error."""
    text = script.opened() + script.text(TEXT)
    told = ("broke", None if operation in TELLING else "e9")
    look = wire.stream(read(stream=True))
    assert text == look.feed(text + wire.error_event(UpstreamFailed("broke", upstream_code="e9")) + text)
    assert look.error is not None
    assert told == (look.error.message, look.error.upstream_code)
    again = wire.stream(read(stream=True))
    again.feed(text + wire.error_event(look.error))
    assert again.error is not None
    assert "broke" == again.error.message


@streamed
def test_a_whole_answer_goes_through(wire: Format, read: Callable[..., ChatRequest], script: Script) -> None:
    """Unchanged and measured; what is none is refused."""
    body = script.whole(TEXT)
    look = wire.whole(read())
    assert body == look.take(body)
    assert (COUNTS, "length", "m", True) == (look.usage, look.finish_reason, look.model, look.output_bytes > 0)
    for answer, error in ((b"", UpstreamInvalid), (body[:-1], UpstreamInvalid), (b'{"error":"x"}', UpstreamFailed)):
        with pytest.raises(error):
            wire.whole(read()).take(answer)


@pytest.mark.parametrize("operation", NEVER_STREAMED, indirect=True)
def test_what_holds_no_text_goes_through(operation: Operation, wire: Format, read: Callable[..., ChatRequest]) -> None:
    """Unchanged and measured, and it ends for no reason; what is none is refused."""
    body, counts = NEVER_STREAMED[operation]
    look = wire.whole(read())
    assert body == look.take(body)
    assert (counts, "", 0) == (look.usage, look.finish_reason, look.output_bytes)
    for answer, error in ((b"", UpstreamInvalid), (body[:-1], UpstreamInvalid), (b'{"error":"x"}', UpstreamFailed)):
        with pytest.raises(error):
            wire.whole(read()).take(answer)
