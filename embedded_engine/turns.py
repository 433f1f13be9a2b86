"""What conversations are made of, in messages to the engine and from it."""

from typing import Literal

from msgspec import Struct

__all__ = ["CallPiece", "ChatMessage", "PastCall", "Reasoning", "Tool"]


class PastCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call in an assistant's earlier turn; `arguments` is JSON text."""

    name: str
    arguments: str
    id: str = ""


class ChatMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn of a conversation. Everything but `role` is the client's words and never becomes a control token.

    Attributes:
        role: "system", "developer", "user", "assistant" or "tool".
        content: What was said; of a tool, its result.
        name: Who said it; of a tool, which one.
        calls: The tools that an assistant's turn called.
        call_id: Which call a tool's result answers.
        reasoning: What an assistant thought before it said it.
    """

    role: str
    content: str
    name: str | None = None
    calls: tuple[PastCall, ...] = ()
    call_id: str | None = None
    reasoning: str = ""


class Tool(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A function that the model may call; `parameters` is a JSON Schema of its arguments as text."""

    name: str
    description: str = ""
    parameters: str = '{"type":"object","properties":{},"additionalProperties":false}'
    strict: bool = False


class Reasoning(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a model whose template thinks shall think; models that don't are not asked to.

    Attributes:
        enabled: Whether it thinks at all; None: as its template has it.
        max_tokens: At most so many thinking tokens; None: half of what the answer may have.
        min_tokens: Fewer are made more, by "Wait" in place of the end mark; 0: never.
        on_exceed: At the bound, "answer" ends the thought and lets the model answer, "stop" ends the choice.
        effort: The word that templates know it by, where they do.
    """

    enabled: bool | None = None
    max_tokens: int | None = None
    min_tokens: int = 0
    on_exceed: Literal["answer", "stop"] = "answer"
    effort: str | None = None


class CallPiece(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """More of a tool call: its number within the choice, first its id and name, then its arguments piece by piece."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""
