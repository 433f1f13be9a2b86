from typing import Any

import pytest

from gateway.forecast import Forecast
from gateway.limits.template_overhead import TemplateOverhead
from gateway.price import Usage
from gateway.types import Operation


def _forecast(tokens: int) -> Forecast:
    return Forecast(prompt_tokens=tokens, output_tokens_p50=10, output_tokens_p90=20)


def test_what_a_template_adds_is_reserved_from_the_second_prompt_on(make_request: Any) -> None:
    """A mere "Hi" of 5 tokens is 31 to the model: so are 5 more next time, and nothing is added for other models."""
    overhead, request = TemplateOverhead(), make_request("Hi")
    forecast = _forecast(5)
    assert forecast == overhead.lengthened(request, forecast)
    overhead.learn(request, forecast, Usage(prompt_tokens=31, output_tokens=3))
    assert Forecast(prompt_tokens=33, output_tokens_p50=10, output_tokens_p90=20) == overhead.lengthened(
        request, _forecast(7)
    )
    for other in (make_request("Hi", model="other"), make_request("Hi", operation=Operation.COMPLETION)):
        assert 7 == overhead.lengthened(other, _forecast(7)).prompt_tokens


def test_most_prompts_stay_within_what_is_reserved(make_request: Any) -> None:
    """Of prompts whose estimates are 10 tokens off either way, nine in ten are no longer than reserved."""
    overhead, request, within = TemplateOverhead(), make_request("Hi"), 0
    for number in range(400):
        counted = 100 + 26 + (number * 7) % 21 - 10
        within += counted <= overhead.lengthened(request, _forecast(100)).prompt_tokens
        overhead.learn(request, _forecast(100), Usage(prompt_tokens=counted))
    assert 0.7 <= within / 400 <= 0.97
    for _ in range(300):
        overhead.learn(request, _forecast(100), Usage(prompt_tokens=90))
    assert _forecast(100) == overhead.lengthened(request, _forecast(100))


@pytest.mark.parametrize(
    ("tokens", "usage"),
    [(600, Usage(prompt_tokens=900)), (5, Usage(prompt_tokens=31, estimated=True)), (5, Usage(prompt_tokens=0))],
)
def test_what_says_nothing_of_a_template_is_left_out(make_request: Any, tokens: int, usage: Usage) -> None:
    """Long prompts, counts of our own and no counts at all."""
    overhead = TemplateOverhead()
    overhead.learn(make_request("Hi"), _forecast(tokens), usage)
    assert 5 == overhead.lengthened(make_request("Hi"), _forecast(5)).prompt_tokens


def test_models_that_are_remembered_are_bounded(make_request: Any) -> None:
    """Clients choose their names."""
    overhead = TemplateOverhead()
    for number in range(1100):
        overhead.learn(make_request("Hi", model=f"m{number}"), _forecast(5), Usage(prompt_tokens=31))
    assert 5 == overhead.lengthened(make_request("Hi", model="m0"), _forecast(5)).prompt_tokens
    assert 31 == overhead.lengthened(make_request("Hi", model="m1099"), _forecast(5)).prompt_tokens
