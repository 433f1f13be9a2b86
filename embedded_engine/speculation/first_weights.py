"""What the confidence heads know before they have seen anything: fitted to texts of SmolLM2-135M-Instruct.

Nine kinds of task (the prompts of `tests/benchmarks/speculation_prompts.py`), greedy and at temperature 0.8, and the
latter once more with its probabilities as they are at temperature 1; logistic regressions with a ridge of 2.
"""

__all__ = ["FIRST_WEIGHTS", "REFEREE_WEIGHTS"]

FIRST_WEIGHTS: dict[str, tuple[float, ...]] = {
    "prediction": (-0.66, 0.36, -0.66, -0.45, 1.42, 1.69, -0.68, 0.34, 0.26, -0.81, -1.23, 0.12, -0.34, 0.36),
    "repetition": (-2.78, 1.21, 2.43, 0.26, 1.06, -0.48, -0.52, -0.42, 2.15, 0.04, -1.87, -0.79, -0.5, -0.28),
    "past_outputs": (-1.29, 0.37, -1.29, -0.89, 1.66, 1.84, -1.41, 0.71, 0.42, 1.14, -1.15, 0.69, -0.39, 0.37),
    "markov": (-3.39, -0.44, 1.33, 0.0, 1.47, 1.72, -0.8, 0.47, 1.33, 0.0, 0.0, 0.11, -0.43, 0.95),
}
"""By source, a weight for each of `FEATURES`."""

REFEREE_WEIGHTS: dict[str, tuple[float, ...]] = {
    "prediction": (-0.15, 0.93, -0.8),
    "repetition": (0.04, 0.96, -1.14),
    "past_outputs": (-0.23, 0.94, -0.43),
    "markov": (-0.28, 0.84, -0.47),
}
"""The same for the guess that was the best of its place, which is less likely right than its head thinks: one, the
log odds of its head, and the confidence of the best that guessed another token.
"""
