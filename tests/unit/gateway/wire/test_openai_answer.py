"""Answers that are made here pass through our own looks, and through OpenAI's own types."""

import json

import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from gateway.price import Usage
from gateway.types import Operation
from gateway.wire.openai_answer import Answered, StreamWriter, whole_answer
from gateway.wire.openai_stream import OpenAIStream
from gateway.wire.openai_whole import OpenAIWhole

USAGE = Usage(prompt_tokens=5, output_tokens=7, cached_tokens=3, reasoning_tokens=2)
TEXT = 'a "quoted"\n日本語 👋 \u2028'


@pytest.mark.parametrize("operation", [Operation.CHAT, Operation.COMPLETION])
def test_a_written_stream_is_what_the_format_says(operation: Operation) -> None:
    """Each event parses as OpenAI's own type, and the whole as a complete answer."""
    writer = StreamWriter(operation, "id-1", "m", 1_700_000_000)
    frames = [writer.opening(0), writer.text(0, TEXT), writer.finish(0, "length"), writer.usage(USAGE)]
    kind = ChatCompletionChunk if operation is Operation.CHAT else Completion
    # A completion's type has no word for a choice that goes on, although OpenAI streams null there.
    typed = frames if operation is Operation.CHAT else frames[2:]
    chunks = [kind.model_validate_json(frame[6:-2], strict=True) for frame in typed]
    assert {("id-1", "m", 1_700_000_000)} == {(said.id, said.model, said.created) for said in chunks}
    look = OpenAIStream(choices=1, include_usage=True, max_event_bytes=1000)
    stream = b"".join((*frames, writer.done()))
    assert stream == look.feed(stream) + look.end()
    assert (USAGE, "length", "m") == (look.usage, look.finish_reason, look.model)
    said = json.loads(frames[1][6:-2])["choices"][0]
    assert TEXT == (said["delta"]["content"] if operation is Operation.CHAT else said["text"])


@pytest.mark.parametrize("operation", [Operation.CHAT, Operation.COMPLETION])
def test_a_whole_answer_is_what_the_format_says(operation: Operation) -> None:
    """It parses as OpenAI's own type and counts what it says."""
    body = whole_answer(operation, "id-1", "m", 1_700_000_000, [Answered(TEXT, "stop"), Answered("", "length")], USAGE)
    look = OpenAIWhole()
    assert body == look.take(body)
    assert (USAGE, "stop", "m") == (look.usage, look.finish_reason, look.model)
    if operation is Operation.CHAT:
        chat = ChatCompletion.model_validate_json(body, strict=True)
        assert [(0, TEXT), (1, "")] == [(choice.index, choice.message.content) for choice in chat.choices]
    else:
        completion = Completion.model_validate_json(body, strict=True)
        assert [(0, TEXT), (1, "")] == [(choice.index, choice.text) for choice in completion.choices]


def test_opening_is_for_chats() -> None:
    """A completion has no role to announce."""
    assert b"" == StreamWriter(Operation.COMPLETION, "i", "m", 1).opening(0)
    assert b'"role":"assistant"' in StreamWriter(Operation.CHAT, "i", "m", 1).opening(0)
