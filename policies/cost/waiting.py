"""How long the request would wait behind what is already at the candidate."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.types import Candidate, Context


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """How long the request would wait behind what is already at the candidate.

    ::

        usd      = (queued_s + slot_s) x usd_per_second
        queued_s = the seconds of reading that were sent there and are not over, less what has gone by since it began
        slot_s   = output_tokens_each x seconds_per_token x (in_flight - concurrency + 1) / concurrency

    Prompts are read one after the other, so tokens, not requests, are the load: one long prompt delays more than ten
    short ones, and a warm one hardly at all. The seconds are those that the fleet expected of each prompt when it was
    sent, at the speed that it has learned. ``slot_s`` counts only where all ``concurrency`` places are taken: so many
    of the requests there must end before this one begins, and ``concurrency`` of them write at a time.

    Example::

        cost:
          - waiting
    """

    def usd(self, ctx: Context, candidate: Candidate) -> float:
        """US dollars for the seconds before the candidate could begin with this prompt."""
        return candidate.wait_s * ctx.worth.usd_per_second

    def usd_each(self, ctx: Context, candidates: Sequence[Candidate]) -> list[float]:
        """The same for all candidates."""
        usd_per_second = ctx.worth.usd_per_second
        return [candidate.wait_s * usd_per_second for candidate in candidates]
