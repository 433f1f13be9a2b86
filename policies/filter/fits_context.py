"""Out: a candidate whose context window the request clearly does not fit."""

import math
from dataclasses import dataclass
from typing import ClassVar

from gateway.conversation import prompt_count
from gateway.errors import ClientError, ContextLengthExceeded
from gateway.types import Candidate, Context, Objection, Operation

_LONG_FIELD = {
    Operation.CHAT: "messages",
    Operation.COMPLETION: "prompt",
    Operation.EMBEDDING: "input",
    Operation.MESSAGES: "messages",
    Operation.RESPONSE: "input",
    Operation.OLLAMA_CHAT: "messages",
    Operation.OLLAMA_GENERATE: "prompt",
    Operation.OLLAMA_EMBED: "input",
    Operation.OLLAMA_EMBEDDINGS: "prompt",
}


@dataclass(frozen=True, kw_only=True)
class FitsContext:
    """Out: a candidate whose context window the request clearly does not fit.

    ::

        out = prompt_tokens x (1 - margin) + (max_tokens, or 1 where the client set none) > context_tokens

    The prompt is an estimate, and only the backend can count it. Whatever may fit is therefore let through: a backend
    refuses what does not, with exact numbers, and a wrong refusal here could not be helped by anybody. ``max_tokens``
    is exact and counts in full. The reason names the estimate as it is, without the margin. A candidate that does not
    say how large its window is takes everything, until it has refused something as too long: whatever is clearly no
    shorter than that is out, too. Of several prompts in one request (completions, embeddings) each has
    the window for itself, and the longest is at least as long as they are on average.

    Attributes:
        margin: how much too high the estimate may be. 0.5 allows for text with twice the bytes per token that the
            classifier takes for normal; in 20,000 English prompts the worst was 1.7 times.
        count_max_tokens: false for backends that cut the answer at the end of their window instead of refusing.

    Example::

        filter:
          - {use: fits_context, margin: 0.5}
    """

    margin: float = 0.5
    count_max_tokens: bool = True

    refusal: ClassVar[type[ClientError] | None] = ContextLengthExceeded

    def __post_init__(self) -> None:
        if not 0 <= self.margin < 1:
            raise ValueError(f"`margin` must be from 0 to below 1, and is {self.margin}")

    def exclude(self, ctx: Context, candidate: Candidate) -> str | None:
        """``needs about 16801 tokens of 8192``, or ``None``."""
        if ctx.forecast.units is not None or ctx.request.arrival.operation is Operation.COUNT_TOKENS:
            return None  # how long it is is a count's question; of what is passed on only the backend can tell
        window_tokens, refused_tokens = candidate.context_tokens, candidate.too_long_tokens
        if window_tokens is None and refused_tokens is None:
            return None
        answer_tokens = 1
        if self.count_max_tokens and ctx.request.max_tokens is not None:
            answer_tokens = ctx.request.max_tokens
        prompt_tokens = ctx.forecast.prompt_tokens
        if refused_tokens is None and window_tokens is not None and prompt_tokens + answer_tokens <= window_tokens:
            return None  # as it mostly is: even all prompts together fit, without any margin
        prompt_tokens //= prompt_count(ctx.request.prompt)
        least_tokens = math.floor(prompt_tokens * (1 - self.margin)) + answer_tokens
        if window_tokens is not None and least_tokens > window_tokens:
            too_long = f"needs about {prompt_tokens + answer_tokens} tokens of {window_tokens}"
        elif refused_tokens is not None and least_tokens >= refused_tokens:
            too_long = f"needs about {prompt_tokens + answer_tokens} tokens, and {refused_tokens} were too many"
        else:
            return None
        return Objection(too_long, param=_LONG_FIELD.get(ctx.request.arrival.operation))
