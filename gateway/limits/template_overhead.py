"""How many tokens a model's chat template adds to a prompt, learned from what upstreams count."""

import math

from gateway.forecast import Forecast
from gateway.price import Usage
from gateway.types import ChatRequest, Operation

_TELLING_TOKENS = 512
"""Of longer prompts the estimate's own error says more than the template does."""
_MOST_MODELS = 1024
_STEP = 0.3
_EXPECTILE = 0.98


class TemplateOverhead:
    """By model and operation, as clients ask for them: what prompts are longer than forecast.

    ::

        overhead += 0.3 x (counted - forecast - overhead) x (0.98 where that is positive, 0.02 where not)

    the 0.98 expectile, which most prompts stay within and which falls again when it is too high.
    """

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, Operation], float] = {}

    def lengthened(self, request: ChatRequest, forecast: Forecast) -> Forecast:
        """The forecast with the template's tokens on top of the prompt's."""
        overhead = self._tokens.get((request.model, request.arrival.operation), 0.0)
        if overhead <= 0 or forecast.units is not None:
            return forecast
        return Forecast(
            prompt_tokens=forecast.prompt_tokens + math.ceil(overhead),
            output_tokens_p50=forecast.output_tokens_p50,
            output_tokens_p90=forecast.output_tokens_p90,
            choices=forecast.choices,
        )

    def learn(self, request: ChatRequest, forecast: Forecast, usage: Usage) -> None:
        """An upstream has counted the prompt."""
        if usage.estimated or usage.prompt_tokens <= 0 or forecast.prompt_tokens > _TELLING_TOKENS:
            return
        key = (request.model, request.arrival.operation)
        longer = usage.prompt_tokens - forecast.prompt_tokens
        known = self._tokens.pop(key, None)
        if known is None:
            known = max(float(longer), 0.0)
        else:
            known += _STEP * (longer - known) * (_EXPECTILE if longer > known else 1 - _EXPECTILE)
        self._tokens[key] = known
        if len(self._tokens) > _MOST_MODELS:
            del self._tokens[next(iter(self._tokens))]
