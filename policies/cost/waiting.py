"""How long the request would wait behind what is already at the candidate."""

from dataclasses import dataclass

from gateway.types import Candidate, Context


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """How long the request would wait behind what is already at the candidate.

    ::

        prefill_s = queued_prefill_tokens / prefill_tokens_per_s
        slot_s    = running_output_tokens x seconds_per_token x (in_flight - concurrency + 1) / in_flight / concurrency
        usd       = (prefill_s + slot_s) x usd_per_second

    ``slot_s`` counts only where all ``concurrency`` places are taken. Of the ``in_flight`` requests there,
    ``in_flight - concurrency + 1`` must end before this one begins; each writes its share of ``running_output_tokens``,
    and ``concurrency`` of them write at a time. Tokens, not requests, are the load: one long prompt delays more than
    ten short ones.

    Example::

        cost:
          - waiting
    """

    def usd(self, ctx: Context, candidate: Candidate) -> float:
        """US dollars for the seconds before the candidate could begin with this prompt."""
        prefill_s = candidate.queued_prefill_tokens / candidate.prefill_tokens_per_s
        return (prefill_s + _slot_s(candidate)) * ctx.worth.usd_per_second


def _slot_s(candidate: Candidate) -> float:
    places = candidate.concurrency
    if places is None or candidate.in_flight < places:
        return 0.0
    share_tokens = candidate.running_output_tokens / max(candidate.in_flight, 1)
    turns = (candidate.in_flight - places + 1) / max(places, 1)
    return share_tokens * candidate.seconds_per_token * turns
