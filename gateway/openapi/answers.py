"""The shapes of answers to inference, as a document tells them. Whatever a provider adds to them goes along.

They are the formats' own (https://platform.openai.com/docs/api-reference, https://docs.claude.com/en/api): of each what
every answer has. An upstream that speaks the client's format answers in its own bytes.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=0)]
_Few = Meta(extra_json_schema={"minItems": 1})


class ChatUsage(Struct, kw_only=True):
    """Token counts as OpenAI's chat and completions tell them."""

    prompt_tokens: Count
    completion_tokens: Count
    total_tokens: Count
    prompt_tokens_details: dict[str, Any] | None = None
    completion_tokens_details: dict[str, Any] | None = None


class ChatMessage(Struct, kw_only=True):
    """What the model said; ``tool_calls`` are those that it wants made."""

    role: str
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[dict[str, Any]] | None = None


class ChatChoice(Struct, kw_only=True):
    """One answer of the ``n`` asked for."""

    index: int
    message: ChatMessage
    finish_reason: str | None
    logprobs: Any = None


class ChatCompletion(Struct, kw_only=True):
    """A chat's answer."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: Annotated[list[ChatChoice], _Few]
    usage: ChatUsage | None = None


class TextChoice(Struct, kw_only=True):
    """One text."""

    index: int
    text: str
    finish_reason: str | None
    logprobs: Any = None


class TextCompletion(Struct, kw_only=True):
    """A completion's answer."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: Annotated[list[TextChoice], _Few]
    usage: ChatUsage | None = None


class Embedding(Struct, kw_only=True):
    """A vector: numbers, or the base64 of its 32-bit little-endian floats."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingUsage(Struct, kw_only=True):
    """Token counts of embeddings."""

    prompt_tokens: Count
    total_tokens: Count


class EmbeddingList(Struct, kw_only=True):
    """Vectors, one for each input, in its order."""

    object: Literal["list"]
    data: Annotated[list[Embedding], _Few]
    model: str
    usage: EmbeddingUsage | None = None


class MessageUsage(Struct, kw_only=True):
    """Token counts as Anthropic tells them: ``input_tokens`` are those that no cache had or kept."""

    input_tokens: Count
    output_tokens: Count
    cache_creation_input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None


class AnthropicMessage(Struct, kw_only=True):
    """An answer of Anthropic's Messages."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[dict[str, Any]]
    stop_reason: str | None
    stop_sequence: str | None
    usage: MessageUsage


class TokenCount(Struct, kw_only=True):
    """How long a prompt is; ``estimated`` where nobody could count."""

    input_tokens: Count
    estimated: bool = False


class ResponseUsage(Struct, kw_only=True):
    """Token counts as OpenAI's Responses tells them."""

    input_tokens: Count
    output_tokens: Count
    total_tokens: Count
    input_tokens_details: dict[str, Any] | None = None
    output_tokens_details: dict[str, Any] | None = None


class ResponseObject(Struct, kw_only=True):
    """An answer of OpenAI's Responses; the request's own settings stand beside it."""

    id: str
    object: Literal["response"]
    created_at: int | float
    status: Literal["completed", "incomplete", "failed", "in_progress", "cancelled", "queued"]
    model: str
    output: list[dict[str, Any]]
    usage: ResponseUsage | None = None
    error: Any = None
    incomplete_details: Any = None


class OpenAIProblem(Struct, kw_only=True):
    """``message`` is for people, ``code`` for programs, ``param`` the field at fault."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(Struct, kw_only=True):
    """OpenAI's envelope."""

    error: OpenAIProblem


class AnthropicProblem(Struct, kw_only=True):
    """As Anthropic tells it; ``param``, the field at fault, is ours."""

    type: str
    message: str
    param: str | None = None
    details: dict[str, Any] | None = None


class AnthropicError(Struct, kw_only=True):
    """Anthropic's envelope."""

    type: Literal["error"]
    error: AnthropicProblem
