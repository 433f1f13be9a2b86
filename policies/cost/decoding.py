"""How long the candidate would write the answer."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.types import Candidate, Context


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How long the candidate would write the answer.

    ::

        usd = share x output_tokens_p50 / n x seconds_per_token x usd_per_second

    ``seconds_per_token`` is what one sequence would see at the candidate now, beside all that is under way there. The
    forecast counts the tokens of all ``n`` choices, which are written side by side.

    Attributes:
        share: what a second of writing is worth, against a second in which nothing is there to read. 1 is the time to
            the last token; an answer that is read while it is written may take 0.3, and then reaches its first token
            sooner.

    Example::

        cost:
          - {use: decoding, share: 0.3}
    """

    share: float = 0.3

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"`share` must be from 0 to 1, and is {self.share}")

    def usd(self, ctx: Context, candidate: Candidate) -> float:
        """US dollars for the seconds from the first token to the last."""
        n = ctx.request.n
        tokens_each = ctx.forecast.output_tokens_p50 / (n if n > 1 else 1)  # noqa: FURB136  # max() costs four times as much here
        return self.share * tokens_each * ctx.worth.usd_per_second * candidate.seconds_per_token

    def usd_each(self, ctx: Context, candidates: Sequence[Candidate]) -> list[float]:
        """The same for all candidates."""
        tokens_each = ctx.forecast.output_tokens_p50 / max(ctx.request.n, 1)
        usd_per_token_second = self.share * tokens_each * ctx.worth.usd_per_second
        return [usd_per_token_second * candidate.seconds_per_token for candidate in candidates]
