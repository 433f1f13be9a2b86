"""What an answer of the engine took, added up over its choices."""

from dataclasses import dataclass, field
from typing import Any

from backends._engine_metrics import measurements
from embedded_engine.measured import Drafts, Measured
from embedded_engine.messages import Accepted, Done
from gateway.price import Usage
from gateway.wire.openai_usage import PredictionTokens


@dataclass(slots=True, kw_only=True)
class Account:
    """The account of one request.

    Attributes:
        unfinished_choices: How many are still to come to their end, over all prompts.
    """

    unfinished_choices: int
    _prompt_tokens: int = 0
    _output_tokens: int = 0
    _reasoning_tokens: int = 0
    _cached_tokens: int = 0
    _measured: list[Measured] = field(default_factory=list)

    def accepted(self, event: Accepted) -> None:
        """A prompt was taken."""
        self._prompt_tokens += event.prompt_tokens

    def done(self, event: Done) -> None:
        """A choice is over. The choices of one prompt share it, so what was cached of it counts once."""
        self.unfinished_choices -= 1
        self._output_tokens += event.completion_tokens
        self._reasoning_tokens += event.reasoning_tokens
        self._measured.append(event.measured)
        if event.choice == 0:
            self._cached_tokens += event.measured.cached_tokens

    @property
    def usage(self) -> Usage:
        """The tokens so far."""
        return Usage(
            prompt_tokens=self._prompt_tokens,
            output_tokens=self._output_tokens,
            cached_tokens=min(self._cached_tokens, self._prompt_tokens),
            reasoning_tokens=self._reasoning_tokens,
        )

    @property
    def prediction(self) -> PredictionTokens:
        """What became of the client's prediction."""
        return PredictionTokens(
            accepted=sum(it.accepted_prediction_tokens for it in self._measured),
            rejected=sum(it.rejected_prediction_tokens for it in self._measured),
        )

    @property
    def drafts(self) -> list[Drafts]:
        """What was drafted, choice by choice and source by source."""
        return [draft for measured in self._measured for draft in measured.drafts]

    def measurements(self) -> dict[str, Any]:
        """``metrics`` and ``timings`` of the whole answer."""
        return measurements(self._measured, self.usage)
