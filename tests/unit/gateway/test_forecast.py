"""What a forecast says beyond its fields: class, kind, and seconds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.forecast import Forecast, LengthClass, RequestKind, Seconds


def _forecast(p50: int = 100, p90: int = 300, *, prompt_tokens: int = 10, choices: int = 1) -> Forecast:
    return Forecast(prompt_tokens=prompt_tokens, output_tokens_p50=p50, output_tokens_p90=p90, choices=choices)


@pytest.mark.parametrize(
    ("tokens", "name"),
    [(0, "64"), (64, "64"), (65, "192"), (192, "192"), (384, "384"), (640, "640"), (641, "longer"), (10**9, "longer")],
)
def test_a_length_belongs_to_the_class_that_ends_at_or_above_it(tokens: int, name: str) -> None:
    """The ends belong to the classes that they name."""
    assert name == LengthClass.of(tokens)
    assert name == _forecast(tokens).length_class


def test_the_class_is_that_of_one_answer() -> None:
    """Four answers of 60 tokens are short ones."""
    assert LengthClass.UP_TO_64 is _forecast(240, choices=4).length_class


@pytest.mark.parametrize(
    ("prompt_tokens", "p50", "kind"),
    [
        (1024, 256, RequestKind.SHORT_IN_SHORT_OUT),
        (1024, 257, RequestKind.SHORT_IN_LONG_OUT),
        (1025, 256, RequestKind.LONG_IN_SHORT_OUT),
        (9000, 900, RequestKind.LONG_IN_LONG_OUT),
    ],
)
def test_a_request_is_short_or_long_in_and_out(prompt_tokens: int, p50: int, kind: RequestKind) -> None:
    """By its prompt and its median answer."""
    assert kind is _forecast(p50, 2 * p50, prompt_tokens=prompt_tokens).kind


@given(p50=st.integers(0, 10**6), more=st.integers(0, 10**6))
def test_eight_in_ten_lie_between_the_median_and_nine_in_ten(p50: int, more: int) -> None:
    """Whatever they are; where the two are one, there is nothing between."""
    forecast = _forecast(p50, p50 + more)
    assert p50 <= forecast.output_tokens_p80 <= p50 + more


def test_the_last_token_comes_after_the_first_and_all_writing() -> None:
    """Half a second, then 100 tokens of 20 ms; what may come later adds up like the sides of a right angle."""
    found = _forecast(100, 250).total_s(first_token_p50_s=0.5, first_token_p90_s=4.5, seconds_per_token=0.02)
    assert Seconds(p50=2.5, p80=pytest.approx(5.785), p90=pytest.approx(7.5)) == found


def test_choices_are_written_side_by_side() -> None:
    """Two of them take as long as one."""
    times = {"first_token_p50_s": 1.0, "first_token_p90_s": 1.0, "seconds_per_token": 0.1}
    assert _forecast(50, 80).total_s(**times) == _forecast(100, 160, choices=2).total_s(**times)
