"""How a request wants its tokens drawn."""

from dataclasses import dataclass

__all__ = ["Sampling"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """The sampling fields of `messages.Generate`, each in its range, with the seed settled."""

    seed: int
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    min_tokens: int = 0
    ignore_eos: bool = False
