"""A request in the making, and each of its answers."""

import math
from dataclasses import dataclass, field
from typing import Literal

from embedded_engine.intake import Prepared
from embedded_engine.pending_logprobs import PendingLogprobs
from embedded_engine.prompt_echo import PromptEcho
from embedded_engine.sampling.chooser import Chooser
from embedded_engine.speculation.draft_model import NO_BLOCK, Block, BlockDrafter
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
        left: Whether everybody who followed it has been told so.
        transcript: What its tokens say.
        unreported_tokens: Emitted since the last text went out.
        logprobs: Those of tokens whose text is not out yet.
        in_doubt: Whether its next token has to be computed again, alone.
        block: What the draft model has drafted for the step that runs.
        block_drafter: The draft model, where it follows this choice.
        reason: Why it is over.
    """

    running: "Running"
    index: int
    chooser: Chooser
    draft: Draft
    tokens: list[int]
    slot: int | None = None
    computed: int = 0
    over: bool = False
    left: bool = False
    transcript: Transcript
    unreported_tokens: int = 0
    logprobs: PendingLogprobs = field(default_factory=PendingLogprobs)
    in_doubt: bool = False
    block: Block = NO_BLOCK
    block_drafter: BlockDrafter | None = None
    reason: EndReason = "stop"

    @property
    def emitted_tokens(self) -> int:
        """An end token excluded."""
        return len(self.tokens) - len(self.running.request.prompt)

    @property
    def room_tokens(self) -> int:
        """How many it may still emit."""
        return self.running.request.max_tokens - self.emitted_tokens

    @property
    def uncomputed_tokens(self) -> int:
        """Tokens without a cell: one when it decodes, more when it reads."""
        return len(self.tokens) - self.computed

    @property
    def decodes(self) -> bool:
        """Whether its next row makes a new token, all before it being computed."""
        return self.running.prompt_is_read and self.uncomputed_tokens == 1

    @property
    def reads(self) -> bool:
        """Whether there is more to compute before it makes a token: a prompt is read by the first choice alone."""
        return not self.decodes and (self.running.prompt_is_read or self.index == 0)

    def leave_draft_model(self) -> None:
        """It need not be followed any more."""
        if self.block_drafter is not None:
            self.block_drafter.close()


@dataclass(slots=True, kw_only=True, eq=False)
class Running:
    """A request from when it is taken to when it is over. Its first choice reads the prompt for all of them.

    Attributes:
        request: What is asked for.
        echo: Tells the prompt back, where that is asked for.
        due_s: By when it would be done if it were alone, which is its rank: see `Scheduler`.
        arrived_s: When it was taken.
        expires_s: When it is too late.
        choices: Empty as long as it waits for its first slot.
        prompt_is_read: Whether they all have the prompt's cells.
        cached_tokens: So many of the prompt's did not have to be computed.
        placed_s: When it had its first slot.
        first_token_s: When its first token was drawn.
    """

    request: Prepared
    echo: PromptEcho | None = None
    due_s: float = 0.0
    arrived_s: float = 0.0
    expires_s: float = math.inf
    choices: list[Choice] = field(default_factory=list)
    prompt_is_read: bool = False
    cached_tokens: int = 0
    placed_s: float = 0.0
    first_token_s: float = 0.0
    abandoned: bool = False

    @property
    def over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.abandoned or (bool(self.choices) and all(choice.over for choice in self.choices))

    def abandon(self) -> None:
        """Nothing more shall come of it, and what its cells hold is not to be trusted."""
        self.abandoned = True
        for choice in self.choices:
            choice.over = True
