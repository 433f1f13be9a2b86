"""Every client format, by the operation that it serves."""

from collections.abc import Mapping
from types import MappingProxyType

from gateway.types import Operation
from gateway.wire import ollama_request
from gateway.wire.anthropic_count import AnthropicCount
from gateway.wire.anthropic_format import AnthropicMessages
from gateway.wire.format import Format
from gateway.wire.ollama_embeddings import OllamaEmbeddings
from gateway.wire.ollama_format import OllamaFormat
from gateway.wire.openai_chat import read_chat
from gateway.wire.openai_completions import read_completion
from gateway.wire.openai_embeddings import OpenAIEmbeddings
from gateway.wire.openai_format import OpenAIFormat
from gateway.wire.passages import PASSAGES
from gateway.wire.passed_format import PassedFormat
from gateway.wire.responses_format import ResponsesFormat

FORMATS: Mapping[Operation, Format] = MappingProxyType(
    {
        Operation.CHAT: OpenAIFormat(operation=Operation.CHAT, reader=read_chat),
        Operation.COMPLETION: OpenAIFormat(operation=Operation.COMPLETION, reader=read_completion),
        Operation.EMBEDDING: OpenAIEmbeddings(),
        Operation.MESSAGES: AnthropicMessages(),
        Operation.COUNT_TOKENS: AnthropicCount(),
        Operation.RESPONSE: ResponsesFormat(),
        **{operation: PassedFormat(passage) for operation, passage in PASSAGES.items()},
        Operation.OLLAMA_CHAT: OllamaFormat(operation=Operation.OLLAMA_CHAT, reader=ollama_request.read_chat),
        Operation.OLLAMA_GENERATE: OllamaFormat(
            operation=Operation.OLLAMA_GENERATE, reader=ollama_request.read_generation
        ),
        Operation.OLLAMA_EMBED: OllamaEmbeddings(operation=Operation.OLLAMA_EMBED, text_field="input"),
        Operation.OLLAMA_EMBEDDINGS: OllamaEmbeddings(operation=Operation.OLLAMA_EMBEDDINGS, text_field="prompt"),
    }
)
