"""What the confidence heads know before they have seen anything: fitted to texts of SmolLM2-135M-Instruct.

Nine kinds of task, greedy and at temperature 0.8 (the prompts of `tests/benchmarks/speculation_prompts.py`), a ridge of
2. Other models differ less in these than one would think, and the heads learn.
"""

__all__ = ["FIRST_WEIGHTS", "REFEREE_WEIGHTS"]

FIRST_WEIGHTS: dict[str, tuple[float, ...]] = {
    "prediction": (-0.58, 0.28, -0.58, -0.4, 1.26, 1.59, -0.78, 0.72, 0.22, -0.84, -1.15, 0.35, -0.22, 0.28),
    "repetition": (-2.42, 1.12, 2.04, 0.09, 1.08, -0.46, -0.42, 0.06, 2.06, -0.26, -1.75, -0.73, -0.44, -0.25),
    "past_outputs": (-1.31, 0.6, -1.31, -0.91, 0.96, 1.74, -1.45, 0.46, 0.24, 0.34, -0.85, 0.73, -0.38, 0.6),
    "markov": (-3.29, -0.27, 1.12, -0.17, 1.61, 1.91, -0.82, 0.33, 1.12, 0.0, 0.0, 0.06, -0.4, 1.05),
}
"""By source, a weight for each of `FEATURES`."""

REFEREE_WEIGHTS: dict[str, tuple[float, ...]] = {
    "prediction": (-0.16, 0.87, -0.84),
    "repetition": (0.11, 0.96, -1.08),
    "past_outputs": (0.17, 0.38, -2.78),
    "markov": (-0.19, 0.81, 0.0),
}
"""The same for the guess that was the best of its place, which is less likely right than its head thinks: one, the
log odds of its head, and the confidence of the best that guessed another token.
"""
