"""Ollama's answers as deltas."""

import json
from typing import Any

import pytest

from gateway.errors import UpstreamError, UpstreamFailed, UpstreamInvalid, UpstreamTruncated
from gateway.price import Usage
from gateway.wire.deltas import (
    AnswerEnd,
    AnswerStart,
    ChoiceFinish,
    Delta,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallStart,
    UsageReport,
)
from gateway.wire.ollama_reader import OllamaStreamReader, OllamaWholeReader, ollama_reader
from tests.unit.gateway.wire.ollama_calls import WHOLE

CALL = {"id": "call_1", "function": {"index": 0, "name": "f", "arguments": {"x": 1}}}
COUNTS = {"prompt_eval_count": 9, "eval_count": 4, "total_duration": 5, "load_duration": 1}
USED = UsageReport(usage=Usage(prompt_tokens=9, output_tokens=4))


def line(content: str = "", *, done: bool = False, **message: Any) -> bytes:
    """A line of a chat."""
    fields: dict[str, Any] = {"model": "m", "message": {"role": "assistant", "content": content, **message}}
    end = {"done": True, "done_reason": "stop", **COUNTS} if done else {"done": False}
    return json.dumps({**fields, **end}).encode() + b"\n"


def streamed(*lines: bytes) -> list[Delta]:
    """What a stream says."""
    reader = OllamaStreamReader()
    deltas = [delta for piece in lines for delta in reader.feed(piece)]
    deltas += reader.end()
    assert reader.error is None
    return deltas


def test_a_stream_says_what_its_lines_say() -> None:
    """Thoughts, text, calls; then the counts, why it ended, and that it did."""
    said = streamed(line(thinking="hm"), line("It"), line(tool_calls=[CALL]), line(done=True))
    assert [
        AnswerStart(model="m"),
        ReasoningDelta(text="hm"),
        TextDelta(text="It"),
        ToolCallStart(index=0, id="call_1", name="f"),
        ToolCallArguments(index=0, text='{"x":1}'),
        USED,
        ChoiceFinish(reason="tool_calls"),
        AnswerEnd(),
    ] == said


def test_a_whole_answer_says_it_all_at_once() -> None:
    """Of a chat, and of a generation, whose text stands at the top."""
    reader = OllamaWholeReader()
    assert [] == reader.feed(line("It", done=True))
    expected = [AnswerStart(model="m"), TextDelta(text="It"), USED, ChoiceFinish(reason="stop"), AnswerEnd()]
    assert expected == reader.end()
    other = OllamaWholeReader()
    other.feed(json.dumps({"model": "m", "response": "It", "done": True, **COUNTS}).encode())
    assert expected == other.end()


def test_calls_without_ids_get_some() -> None:
    """No two the same, which other formats need."""
    bare = {"function": CALL["function"]}
    starts = [it for it in streamed(line(tool_calls=[bare, bare]), line(done=True)) if isinstance(it, ToolCallStart)]
    assert [0, 1] == [it.index for it in starts]
    assert 2 == len({it.id for it in starts} - {""})


def test_log_probabilities_are_told_as_openai_does() -> None:
    """Under ``content``."""
    told = [{"token": "It", "logprob": -0.5}]
    with_them = (
        json.dumps({"model": "m", "message": {"content": "It"}, "logprobs": told, "done": False}).encode() + b"\n"
    )
    (_, text, *_) = streamed(with_them, line(done=True))
    assert TextDelta(text="It", logprobs={"content": told}) == text


def test_what_comes_after_the_end_is_nothing() -> None:
    """The last line may lack its end."""
    assert streamed(line("It", done=True)) == streamed(line("It", done=True) + line("more"))
    assert streamed(line("It", done=True)) == streamed(line("It", done=True).rstrip())


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ([b""], UpstreamInvalid),
        ([b"<html>\n"], UpstreamInvalid),
        ([b"[]\n"], UpstreamInvalid),
        ([line("It")], UpstreamTruncated),
        ([line("It"), line(done=True)[:-5]], UpstreamTruncated),
        ([line(tool_calls=[{"function": {"arguments": {}}}])], UpstreamInvalid),
    ],
)
def test_a_stream_that_is_no_answer_is_none(lines: list[bytes], error: type[UpstreamError]) -> None:
    """Cut short, or something else."""
    with pytest.raises(error):
        streamed(*lines)


@pytest.mark.parametrize(("body", "error"), [(b"", UpstreamInvalid), (line("It"), UpstreamInvalid)])
def test_a_body_that_is_no_answer_is_none(body: bytes, error: type[UpstreamError]) -> None:
    """Nor is a line of a stream."""
    reader = ollama_reader(WHOLE)
    reader.feed(body)
    with pytest.raises(error):
        reader.end()


@pytest.mark.parametrize("is_stream", [True, False])
def test_an_error_ends_it(is_stream: bool) -> None:
    """In the middle of a stream as in place of an answer."""
    reader = ollama_reader(is_stream)
    said = reader.feed((line("It") if is_stream else b"") + b'{"error":"broke"}\n' + (line("x") if is_stream else b""))
    said += reader.end()
    assert isinstance(reader.error, UpstreamFailed)
    assert "broke" == reader.error.message
    assert ([AnswerStart(model="m"), TextDelta(text="It")] if is_stream else []) == said
