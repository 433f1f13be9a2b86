"""What the engine measured: of one answer, and of itself."""

from msgspec import Struct

__all__ = ["CostPoint", "Drafts", "Measured"]


class Drafts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one source has drafted: `drafts` times some tokens, `drafted` in all, of which `accepted` were right."""

    source: str
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0


class Measured(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one choice was answered.

    Attributes:
        queue_s: From when its request was taken to when it had its slot.
        prefill_s: From there to its first token.
        decode_s: From its first token to its last.
        cached_tokens: Prompt tokens that were not computed, because they were remembered.
        drafts: What was drafted for it, by source.
        accepted_prediction_tokens: Of the caller's own prediction, those that came.
        rejected_prediction_tokens: Of those that were tried, the ones that did not.
    """

    queue_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    cached_tokens: int = 0
    drafts: tuple[Drafts, ...] = ()
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


class CostPoint(Struct, frozen=True, array_like=True):
    """One call of the kernels: how many rows, and how long it takes."""

    rows: int
    seconds: float
