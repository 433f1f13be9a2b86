"""How fast a simulated engine is."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineModel:
    """The speeds of one engine. The defaults are a dense model of 70B on eight A800, as in Mooncake's paper (FAST 25).

    ::

        prefill_s = tokens / prefill_tokens_per_s x (1 + (context_tokens + tokens / 2) / attention_tokens)
        step_s    = step_s + running x sequence_s + held_tokens x held_token_s + prefill_s of the step's chunk

    Attributes:
        prefill_tokens_per_s: how fast a prompt is read where attention costs nothing yet.
        attention_tokens: behind how much context a token costs twice as much to read.
        step_s: what a step costs whatever is in it, above all reading the weights.
        sequence_s: what each running sequence adds to a step.
        held_token_s: what each token held by running sequences adds to a step: its keys and values are read.
        chunk_tokens: how many prompt tokens a step reads at most; running sequences write one token meanwhile.
        most_running: how many sequences are written at a time.
        most_held_tokens: how many tokens the running sequences may hold when another one begins: the memory for keys
            and values.
        block_tokens: the block of the prefix cache.
    """

    prefill_tokens_per_s: float = 10_000.0
    attention_tokens: float = 53_000.0
    step_s: float = 0.018
    sequence_s: float = 0.0002
    held_token_s: float = 2.9e-8
    chunk_tokens: int = 2048
    most_running: int = 128
    most_held_tokens: int = 100_000_000
    block_tokens: int = 512

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in {"sequence_s", "held_token_s"} else None
            if not (value >= 0 if least == 0 else value > 0) or value == float("inf"):
                raise ValueError(
                    f"`{field.name}` must be {'at least 0' if least == 0 else 'more than 0'}, and is {value}"
                )

    def prefill_s(self, tokens: int, context_tokens: int) -> float:
        """Seconds to read ``tokens`` behind ``context_tokens`` that are there."""
        return tokens / self.prefill_tokens_per_s * (1 + (context_tokens + tokens / 2) / self.attention_tokens)

    def decode_s(self, running: int, held_tokens: int) -> float:
        """Seconds of a step without a prompt in it."""
        return self.step_s + running * self.sequence_s + held_tokens * self.held_token_s
