"""A request in the making, and each of its answers."""

from dataclasses import dataclass, field
from typing import Literal

from embedded_engine.intake import Prepared
from embedded_engine.pending_logprobs import PendingLogprobs
from embedded_engine.sampling.chooser import Chooser
from embedded_engine.speculation.speculator import Draft
from embedded_engine.transcript import Transcript

__all__ = ["Choice", "EndReason", "Running"]

EndReason = Literal["stop", "length", "tool_calls"]


@dataclass(slots=True, kw_only=True, eq=False)
class Choice:
    """One answer in the making.

    Attributes:
        running: The request it answers.
        index: Its number within the request.
        chooser: Draws its tokens.
        draft: What is drafted for it.
        tokens: The prompt and what was emitted.
        slot: The sequence that holds its cells; None when it has none.
        computed: So many of `tokens` have their cells there.
        over: Whether nothing more comes.
        transcript: What its tokens say.
        unreported_tokens: Emitted since the last text went out.
        logprobs: Those of tokens whose text is not out yet.
    """

    running: "Running"
    index: int
    chooser: Chooser
    draft: Draft
    tokens: list[int]
    slot: int | None = None
    computed: int = 0
    over: bool = False
    transcript: Transcript
    unreported_tokens: int = 0
    logprobs: PendingLogprobs = field(default_factory=PendingLogprobs)

    @property
    def emitted_tokens(self) -> int:
        """An end token excluded."""
        return len(self.tokens) - len(self.running.request.prompt)

    @property
    def room_tokens(self) -> int:
        """How many it may still emit."""
        return self.running.request.max_tokens - self.emitted_tokens

    @property
    def decodes(self) -> bool:
        """Whether its next row makes a new token, all before it being computed."""
        return self.running.prompt_is_read and not self.over and self.computed == len(self.tokens) - 1


@dataclass(slots=True, kw_only=True, eq=False)
class Running:
    """An admitted request. Its first choice reads the prompt for all of them."""

    request: Prepared
    choices: list[Choice] = field(default_factory=list)
    prompt_is_read: bool = False

    @property
    def over(self) -> bool:
        """Whether every choice is."""
        return all(choice.over for choice in self.choices)

    def abandon(self) -> None:
        """Nothing more comes of it."""
        for choice in self.choices:
            choice.over = True
