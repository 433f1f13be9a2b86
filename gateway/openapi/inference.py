"""What is told of the routes of inference: one line for each operation, beside what all of them have in common."""

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import NamedTuple

from gateway.errors import (
    BodyTooLarge,
    GuardBlocked,
    GuardSilent,
    HeadraceError,
    InvalidRequest,
    LimitExceeded,
    ModelNotFound,
    NoCandidate,
    Overloaded,
    RequestTimeout,
    ShuttingDown,
    Unsupported,
    UnsupportedMediaType,
    UpstreamFailed,
    UpstreamInvalid,
    UpstreamRateLimited,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamTruncated,
    UpstreamUnauthorised,
    UpstreamUnreachable,
)
from gateway.openapi import answers, events, ollama_answers
from gateway.openapi.headers import ANSWERED, REQUEST_HEADERS
from gateway.openapi.told import JSON, Answer, Envelope, Events, Parameter, Shape, Told
from gateway.types import Operation
from gateway.wire.anthropic_request import CountedBody, MessagesBody
from gateway.wire.ollama_embeddings import OllamaEmbedBody, OllamaEmbeddingsBody
from gateway.wire.ollama_request import OllamaChatBody, OllamaGenerate
from gateway.wire.openai_chat import ChatBody
from gateway.wire.openai_completions import CompletionBody
from gateway.wire.openai_embeddings import EmbeddingsBody
from gateway.wire.responses_request import ResponseBody

EVENTS = "text/event-stream"
LINES = "application/x-ndjson"

ERRORS: tuple[type[HeadraceError], ...] = (
    InvalidRequest,
    Unsupported,
    ModelNotFound,
    RequestTimeout,
    BodyTooLarge,
    UnsupportedMediaType,
    GuardBlocked,
    LimitExceeded,
    Overloaded,
    GuardSilent,
    ShuttingDown,
    NoCandidate,
    UpstreamUnreachable,
    UpstreamTimeout,
    UpstreamRateLimited,
    UpstreamUnauthorised,
    UpstreamFailed,
    UpstreamInvalid,
    UpstreamTruncated,
    UpstreamRefused,
)
"""What inference may come to, besides what every route may."""

_ALWAYS = frozenset({"x-request-id", "x-headrace-attempts"})


class _Kind(NamedTuple):
    summary: str
    body: Shape
    answer: Shape
    events: Events | None
    tag: str
    envelope: Envelope = "openai"
    parameters: tuple[Parameter, ...] = ()
    lines: bool = False


_ANTHROPIC = tuple(
    Parameter(name=f"anthropic-{name}", words="Goes on to a provider that speaks the format.", where="header")
    for name in ("version", "beta")
)
_OPENAI_KINDS: Mapping[Operation, _Kind] = {
    Operation.CHAT: _Kind(
        "OpenAI's chat",
        ChatBody,
        answers.ChatCompletion,
        Events(shapes=(events.ChatChunk, answers.OpenAIError), ended=True),
        "openai",
    ),
    Operation.COMPLETION: _Kind(
        "OpenAI's completions",
        CompletionBody,
        answers.TextCompletion,
        Events(shapes=(events.TextChunk, answers.OpenAIError), ended=True),
        "openai",
    ),
    Operation.EMBEDDING: _Kind("OpenAI's embeddings", EmbeddingsBody, answers.EmbeddingList, None, "openai"),
    Operation.RESPONSE: _Kind(
        "OpenAI's Responses",
        ResponseBody,
        answers.ResponseObject,
        Events(shapes=(events.ResponseEvent,), named=True),
        "openai",
    ),
}
_ANTHROPIC_KINDS: Mapping[Operation, _Kind] = {
    Operation.MESSAGES: _Kind(
        "Anthropic's Messages",
        MessagesBody,
        answers.AnthropicMessage,
        Events(shapes=(events.MessageEvent,), named=True),
        "anthropic",
        "anthropic",
        _ANTHROPIC,
    ),
    Operation.COUNT_TOKENS: _Kind(
        "Anthropic's count of a prompt's tokens",
        CountedBody,
        answers.TokenCount,
        None,
        "anthropic",
        "anthropic",
        _ANTHROPIC,
    ),
}
_OLLAMA_KINDS: Mapping[Operation, _Kind] = {
    operation: _Kind(f"Ollama's {words}", body, answer, None, tag="ollama", envelope="ollama", lines=lines)
    for operation, words, body, answer, lines in (
        (Operation.OLLAMA_CHAT, "chat", OllamaChatBody, ollama_answers.OllamaChatAnswer, True),
        (Operation.OLLAMA_GENERATE, "generate", OllamaGenerate, ollama_answers.OllamaGenerateAnswer, True),
        (Operation.OLLAMA_EMBED, "embeddings", OllamaEmbedBody, ollama_answers.OllamaEmbedAnswer, False),
        (
            Operation.OLLAMA_EMBEDDINGS,
            "embeddings of one text, as they were before",
            OllamaEmbeddingsBody,
            ollama_answers.OllamaEmbeddingsAnswer,
            False,
        ),
    )
}
_KINDS: Mapping[Operation, _Kind] = MappingProxyType({**_OPENAI_KINDS, **_ANTHROPIC_KINDS, **_OLLAMA_KINDS})


def told_of(operation: Operation) -> Told:
    """What is told of the endpoint of an operation.

    Raises:
        KeyError: nothing is.
    """
    kind = _KINDS[operation]
    shapes: dict[str, Shape] = {JSON: kind.answer}
    headers = dict(ANSWERED)
    if kind.events is not None:
        shapes[EVENTS] = kind.events
    if kind.lines:
        words = "A JSON value on each line, unless the request has `stream: false`."
        shapes[LINES] = {"type": "string", "description": words}
    if kind.envelope == "anthropic":
        headers["request-id"] = headers["x-request-id"]
    always = _ALWAYS if kind.events is None and not kind.lines else _ALWAYS - {"x-headrace-attempts"}
    answer = Answer(words="The answer.", shapes=shapes, headers=headers, always=always)
    return Told(
        summary=kind.summary,
        answers={HTTPStatus.OK: answer},
        errors=ERRORS,
        parameters=(*REQUEST_HEADERS, *kind.parameters),
        body=kind.body,
        envelope=kind.envelope,
        tag=kind.tag,
    )
