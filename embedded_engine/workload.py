"""How long a request will take, before anybody knows."""

from embedded_engine.choice import Choice
from embedded_engine.intake import Prepared
from embedded_engine.lane_costs import LaneCosts

__all__ = ["Workload"]

_FIRST_GUESS_TOKENS = 128.0
_MEMORY = 0.05
_CHUNK_ROWS = 31
"""Prompts are read in chunks of about this size; a row of a larger one costs the same."""


class Workload:
    """Learns how long answers are, where their callers do not say.

    Args:
        costs: What a lane's rows cost.
    """

    def __init__(self, costs: LaneCosts) -> None:
        self._costs = costs
        self._answer_tokens = _FIRST_GUESS_TOKENS

    def work_s(self, request: Prepared) -> float:
        """How long it would take alone, if nothing of its prompt were known."""
        prompt, wanted = len(request.prompt), request.predicted_tokens
        answer = min(request.max_tokens, round(self._answer_tokens) if wanted is None else wanted)
        chunk_s = self._costs.call_s(_CHUNK_ROWS, prompt // 2)
        return chunk_s / _CHUNK_ROWS * prompt + answer * self._costs.call_s(request.n, prompt + answer // 2)

    def learn(self, choice: Choice) -> None:
        """A choice is over."""
        self._answer_tokens += _MEMORY * (choice.emitted_tokens - self._answer_tokens)
