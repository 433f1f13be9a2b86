"""How guards find the texts of each client format: by the operation that it serves."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from gateway.types import OLLAMA, ChatRequest, Operation
from gateway.wire.anthropic_stream_texts import AnthropicStreamTexts
from gateway.wire.format import MAX_EVENT_BYTES
from gateway.wire.ollama_stream_texts import LineEvents, OllamaStreamTexts
from gateway.wire.openai_stream_texts import OpenAIStreamTexts
from gateway.wire.picture_stream_texts import PictureStreamTexts
from gateway.wire.places import ANSWER_FIELDS, DRAWS
from gateway.wire.responses_stream_texts import ResponsesStreamTexts
from gateway.wire.spoken_places import TRANSCRIBES
from gateway.wire.spoken_stream_texts import SpokenStreamTexts
from gateway.wire.sse import SseParser
from gateway.wire.stream_texts import EventParser, StreamTexts

STREAM_TEXTS: Mapping[Operation, Callable[[ChatRequest], StreamTexts]] = MappingProxyType(
    {
        Operation.CHAT: OpenAIStreamTexts,
        Operation.COMPLETION: OpenAIStreamTexts,
        Operation.MESSAGES: AnthropicStreamTexts,
        Operation.RESPONSE: ResponsesStreamTexts,
        Operation.OLLAMA_CHAT: OllamaStreamTexts,
        Operation.OLLAMA_GENERATE: OllamaStreamTexts,
        **dict.fromkeys(TRANSCRIBES, SpokenStreamTexts),
        **dict.fromkeys(DRAWS, PictureStreamTexts),
    }
)


def event_parser(operation: Operation) -> EventParser:
    """Takes apart the streams of an endpoint."""
    return LineEvents(MAX_EVENT_BYTES) if operation in OLLAMA else SseParser(MAX_EVENT_BYTES)


def answers_in_words(operation: Operation) -> bool:
    """Whether answers of an endpoint have texts that a guard could look at."""
    return operation in ANSWER_FIELDS or operation in TRANSCRIBES
