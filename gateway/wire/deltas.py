"""An answer in neutral pieces: what every provider's reader makes of its bytes, and every client's writer writes.

The pieces are those of the hub, which is shaped like OpenAI's chat: an answer has choices, a choice has text, thoughts,
tool calls and a reason why it ended. A whole answer is the same pieces, all at once.

The order is ``AnswerStart``, then output, ``ChoiceFinish`` for each choice, ``AnswerEnd``; ``UsageReport`` may come
anywhere between the first and the last, and each one replaces those before it. Every delta has a choice where there can
be several; formats with one answer leave it at zero.
"""

from typing import Any

from msgspec import Struct

from gateway.price import Usage


class AnswerStart(Struct, frozen=True, kw_only=True, gc=False):
    """The answer begins. ``id`` and ``model`` are the provider's and may be empty; ``created_unix_s`` may be zero."""

    id: str = ""
    model: str = ""
    created_unix_s: int = 0


class VectorsAnswer(AnswerStart, frozen=True, kw_only=True, gc=False):
    """An answer that has no words, at once: vectors, each a list of numbers, in the order of the texts they are of."""

    vectors: list[Any]


class TextDelta(Struct, frozen=True, kw_only=True, gc=False):
    """More text. ``logprobs`` is what OpenAI's chat has under that name in a choice, or ``None``."""

    text: str
    choice: int = 0
    logprobs: Any = None


class RefusalDelta(Struct, frozen=True, kw_only=True, gc=False):
    """More of the words in which the model declines."""

    text: str
    choice: int = 0


class ReasoningDelta(Struct, frozen=True, kw_only=True, gc=False):
    """More of what the model thinks, or of its summary."""

    text: str
    choice: int = 0


class ReasoningSignature(Struct, frozen=True, kw_only=True, gc=False):
    """Ends the thought before it: what the provider wants to see beside it when it comes back (opaque)."""

    signature: str
    choice: int = 0


class RedactedReasoning(Struct, frozen=True, kw_only=True, gc=False):
    """A thought that only its provider can read (opaque), whole."""

    data: str
    choice: int = 0


class ToolCallStart(Struct, frozen=True, kw_only=True, gc=False):
    """A tool call begins. ``index`` counts the calls of the choice from zero; the id is never empty.

    Of a ``custom`` tool, OpenAI's for free text, what follows is no JSON but its input.
    """

    index: int
    id: str
    name: str
    choice: int = 0
    custom: bool = False


class ToolCallArguments(Struct, frozen=True, kw_only=True, gc=False):
    """More of a call's arguments, which together are JSON text; or of the input of a ``custom`` tool, which is any."""

    index: int
    text: str
    choice: int = 0
    custom: bool = False


class ChoiceFinish(Struct, frozen=True, kw_only=True, gc=False):
    """A choice is over.

    ``reason`` is one of OpenAI's words (``stop``, ``length``, ``tool_calls``, ``content_filter``), or the provider's
    own where it means none of these. ``stop_sequence`` is the client's string that ended it, where that is known.
    """

    reason: str
    stop_sequence: str | None = None
    choice: int = 0


class UsageReport(Struct, frozen=True, kw_only=True, gc=False):
    """The counts so far, cumulative."""

    usage: Usage


class AnswerEnd(Struct, frozen=True, kw_only=True, gc=False):
    """The provider's own end mark came, or its stream closed where the answer was complete: there is nothing more."""


Delta = (
    AnswerStart
    | TextDelta
    | RefusalDelta
    | ReasoningDelta
    | ReasoningSignature
    | RedactedReasoning
    | ToolCallStart
    | ToolCallArguments
    | ChoiceFinish
    | UsageReport
    | AnswerEnd
)
