"""What a request says about speculation, on the wire between a caller and the engine."""

from typing import Literal

from msgspec import Struct

__all__ = ["AS_FAST_AS_CAN_BE", "DRAFTERS", "MAX_DRAFTED_TOKENS", "NEVER", "Speculative"]

MAX_DRAFTED_TOKENS = 16
"""More rows cost a CPU more than any draft gives."""

DRAFTERS = ("prediction", "repetition", "past_outputs", "markov")
"""The sources of drafts."""


class Speculative(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How one request is sped up; none of it changes what is said, but as `exactness` tells.

    Attributes:
        enabled: Whether tokens are drafted at all.
        n_max: So many drafted tokens in one step at most, from 0 to 16.
        drafters: The only ones of `DRAFTERS` to draft from; None: all. What a grammar or a budget forces is always
            drafted.
        exactness: A row computed among others may differ from the row alone in its last bits, which can turn a tie.
            "kernels" lets it; "strict" computes again, alone, the rows where it could.
    """

    enabled: bool = True
    n_max: int = MAX_DRAFTED_TOKENS
    drafters: tuple[str, ...] | None = None
    exactness: Literal["kernels", "strict"] = "kernels"


AS_FAST_AS_CAN_BE = Speculative()
NEVER = Speculative(enabled=False)
