"""The words of a conversation: what stands inside a request, in the hub format that all client formats map to.

The hub is shaped like OpenAI's chat messages, because that is what most clients send and most upstreams take. Like
``gateway.types``, which builds on it, structs of msgspec: it reads them out of a body.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from gateway.operation import Operation


class Part(Struct, frozen=True, kw_only=True, gc=False):
    """One part of a message's content. ``type`` tells which of the fields is filled (``text``, ``image_url``...)."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: Any = None
    input_audio: Any = None
    file: Any = None


class FunctionCall(Struct, frozen=True, kw_only=True, gc=False):
    """The function that a tool call names, its arguments as the JSON text that the model wrote."""

    name: str = ""
    arguments: str = ""


class CustomCall(Struct, frozen=True, kw_only=True, gc=False):
    """The custom tool that a tool call names, and its input, which is any text."""

    name: str = ""
    input: str = ""


class ToolCall(Struct, frozen=True, kw_only=True, gc=False):
    """A tool call in an assistant's turn: of a function, or of a custom tool."""

    id: str = ""
    type: str = "function"
    function: FunctionCall | None = None
    custom: CustomCall | UnsetType | None = UNSET


class Message(Struct, frozen=True, kw_only=True, gc=False):
    """One turn of a conversation, as the hub format knows it.

    What was thought in an earlier turn stands in ``reasoning_content``, and thought by thought, where their maker has
    signed them, in ``thinking_blocks``.
    """

    role: str
    content: str | tuple[Part, ...] | None = None
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    tool_call_id: str | None = None
    refusal: Any = None
    reasoning_content: Any = UNSET
    thinking_blocks: Any = UNSET

    def text(self) -> str:
        """All text of the turn, its parts joined without a separator; empty where there is none.

        Of a turn in which the model declined it is the words of that.
        """
        if self.content is None:
            return self.refusal if isinstance(self.refusal, str) else ""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text or "" for part in self.content)


class Sampling(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """How tokens are drawn. ``None`` means that the client said nothing, which is not the same as zero."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()


class Translation(Struct, frozen=True, kw_only=True, gc=False):
    """A body of another format in the shape of one of OpenAI's, for backends that do not speak the client's.

    It is a chat's, unless ``into`` is another of their operations. ``fields`` are the top-level fields as JSON bytes,
    ``model`` and ``stream`` among them. ``lost`` are paths to what has no place there. ``origins`` names the client's
    own field for those that are called differently. ``hints`` are fields that ask for nothing which an answer must
    have: a backend that does not know them may go without.
    ``offers`` are paths to what the client merely offers and a chat has no place for, such as tools that only another
    provider can run.
    """

    fields: Mapping[str, Any]
    lost: tuple[str, ...] = ()
    origins: Mapping[str, str] = {}
    hints: frozenset[str] = frozenset()
    offers: tuple[str, ...] = ()
    into: Operation = Operation.CHAT


class LastEvent:
    """The last event of a streamed answer that went out, where its format numbers them: ``data`` is its JSON."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = b""


class Remembered(Struct, frozen=True, kw_only=True, gc=False):
    """An answer that the client may ask for again, or go on from.

    ``keep`` takes it, finished, as the JSON that the client gets, where it is to be kept; ``previous_id`` is the answer
    that this one goes on from, or empty. ``last`` is how far a stream of it is.
    """

    last: LastEvent
    keep: Callable[[bytes], None] | None = None
    previous_id: str = ""


Prompt = str | tuple[str, ...] | tuple[int, ...] | tuple[tuple[int, ...], ...]


def prompt_count(prompt: Prompt | None) -> int:
    """How many prompts a completion holds; a chat is one."""
    if isinstance(prompt, tuple) and prompt and not isinstance(prompt[0], int):
        return len(prompt)
    return 1
