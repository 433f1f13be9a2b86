"""The writers of all client formats that an answer can be translated to."""

from collections.abc import Callable, Mapping
from time import monotonic
from types import MappingProxyType

from gateway.types import Call, ChatRequest, Operation
from gateway.wire.anthropic_writer import anthropic_writer
from gateway.wire.chat_writer import chat_writer
from gateway.wire.completion_writer import completion_writer
from gateway.wire.ollama_writer import ollama_writer
from gateway.wire.responses_writer import responses_writer
from gateway.wire.translation import AnswerWriter, WriterOf
from gateway.wire.vectors import ollama_vectors_writer, openai_vectors_writer

_TIMED: Mapping[Operation, Callable[[Callable[[], float]], WriterOf]] = MappingProxyType(
    {
        Operation.OLLAMA_CHAT: ollama_writer,
        Operation.OLLAMA_GENERATE: ollama_writer,
        Operation.OLLAMA_EMBED: ollama_vectors_writer,
        Operation.OLLAMA_EMBEDDINGS: ollama_vectors_writer,
    }
)
"""Those whose answers tell how long they took."""


def _from_now(timed: Callable[[Callable[[], float]], WriterOf]) -> WriterOf:
    """Writers on the system's clock, for attempts that begin with their answers."""

    def writer_of(request: ChatRequest, streamed: bool) -> AnswerWriter:  # noqa: FBT001  # the door's signature
        return timed(monotonic)(request, streamed)

    return writer_of


WRITERS: Mapping[Operation, WriterOf] = MappingProxyType(
    {
        Operation.CHAT: chat_writer,
        Operation.COMPLETION: completion_writer,
        Operation.EMBEDDING: openai_vectors_writer,
        Operation.MESSAGES: anthropic_writer,
        Operation.RESPONSE: responses_writer,
        **{operation: _from_now(timed) for operation, timed in _TIMED.items()},
    }
)


def writer_for(call: Call) -> WriterOf:
    """The writer of its client's format, on the gateway's own clock."""
    operation = call.request.arrival.operation
    timed = _TIMED.get(operation)
    return WRITERS[operation] if timed is None else timed(call.now_s)
