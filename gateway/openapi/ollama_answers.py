"""The shapes of Ollama's answers, as a document tells them: https://docs.ollama.com/api."""

from typing import Any, Literal

from msgspec import Struct

from gateway.openapi.answers import Count


class OllamaError(Struct, kw_only=True):
    """Ollama's envelope: words for people."""

    error: str


class Timed(Struct, kw_only=True):
    """How long it took, in nanoseconds, and the counts: with the end of an answer."""

    total_duration: Count | None = None
    load_duration: Count | None = None
    prompt_eval_count: Count | None = None
    prompt_eval_duration: Count | None = None
    eval_count: Count | None = None
    eval_duration: Count | None = None
    headrace: dict[str, Any] = {}


class OllamaMessage(Struct, kw_only=True):
    """What the model said."""

    role: Literal["assistant"]
    content: str
    thinking: str | None = None
    tool_calls: list[dict[str, Any]] | None = None


class OllamaChatAnswer(Timed, kw_only=True):
    """A chat's answer, or a line of one."""

    model: str
    created_at: str
    message: OllamaMessage
    done: bool
    done_reason: str | None = None


class OllamaGenerateAnswer(Timed, kw_only=True):
    """A generation's answer, or a line of one."""

    model: str
    created_at: str
    response: str
    done: bool
    thinking: str | None = None
    done_reason: str | None = None


class OllamaEmbedAnswer(Timed, kw_only=True):
    """A vector for each text."""

    model: str
    embeddings: list[list[float]]


class OllamaEmbeddingsAnswer(Struct, kw_only=True):
    """The vector of one text."""

    embedding: list[float]
    prompt_eval_count: Count | None = None
