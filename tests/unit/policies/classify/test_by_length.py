"""Prompt tokens from bytes, answer tokens from answers."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.conversation import Message, Part
from gateway.price import Usage
from gateway.types import Operation, Status
from policies.classify.by_length import ByLength

Make = Callable[..., Any]


def _learn(policy: ByLength, make_entry: Make, lengths: list[int], **fields: Any) -> None:
    for tokens in lengths:
        policy.observe(make_entry(output_tokens=tokens, **fields))


def test_the_prompt_is_its_bytes_and_what_the_template_adds(make_request: Make) -> None:
    """Rounded up: 13 bytes in tokens of 4, and 4 around each of two messages."""
    assert 12 == ByLength().forecast(make_request("hello", "ça va?!")).prompt_tokens
    assert 7 == ByLength(bytes_per_token=5, message_tokens=2).forecast(make_request("hello", "ça va?!")).prompt_tokens


def test_images_weigh_and_an_empty_prompt_weighs_nothing(make_request: Make) -> None:
    """Their text does not show it."""
    picture = Part(type="image_url", image_url={"url": "data:"})
    seen = make_request(messages=(Message(role="user", content=(picture, picture)),))
    assert 1534 == ByLength().forecast(seen).prompt_tokens
    assert 0 == ByLength().forecast(make_request(prompt="", operation=Operation.COMPLETION)).prompt_tokens


def test_prompts_of_token_numbers_are_counted(make_request: Make) -> None:
    """Whatever bytes they were taken for; of several, each is answered."""
    assert 3 == ByLength().forecast(make_request(prompt=(5, 6, 7), prompt_bytes=12)).prompt_tokens
    several = ByLength().forecast(make_request(prompt=((5, 6), (7,)), prompt_bytes=12))
    assert (3, 2 * 255) == (several.prompt_tokens, several.output_tokens_p50)


def test_before_anything_is_known_the_prior_stands_under_the_cap_of_the_client(make_request: Make) -> None:
    """For each choice."""
    policy = ByLength()
    free = policy.forecast(make_request("hi"))
    capped = policy.forecast(make_request("hi", max_tokens=300, n=2))
    assert (255, 550) == (free.output_tokens_p50, free.output_tokens_p90)
    assert (510, 600) == (capped.output_tokens_p50, capped.output_tokens_p90)


def test_a_model_is_known_after_enough_answers_and_others_are_not(make_request: Make, make_entry: Make) -> None:
    """Median and nine in ten of 10, 20 ... 100."""
    policy = ByLength(enough_answers=10)
    _learn(policy, make_entry, list(range(10, 100, 10)))
    assert 255 == policy.forecast(make_request("hi")).output_tokens_p50
    _learn(policy, make_entry, [100])
    known, unknown = policy.forecast(make_request("hi")), policy.forecast(make_request("hi", model="large"))
    assert (50, 90) == (known.output_tokens_p50, known.output_tokens_p90)
    assert 255 == unknown.output_tokens_p50


@given(lengths=st.lists(st.integers(0, 5000), min_size=1, max_size=300))
def test_without_cut_answers_the_quantiles_are_those_of_the_last_256(
    make_request: Make, make_entry: Make, lengths: list[int]
) -> None:
    """The smallest length that half, or nine in ten, stay within."""
    policy = ByLength(enough_answers=1)
    _learn(policy, make_entry, lengths)
    forecast = policy.forecast(make_request("hi"))
    latest = sorted(lengths[-256:])
    assert latest[-(-len(latest) // 2) - 1] == forecast.output_tokens_p50
    assert latest[-(-len(latest) * 9 // 10) - 1] == forecast.output_tokens_p90


def test_an_answer_cut_by_max_tokens_counts_as_at_least_that_long(make_request: Make, make_entry: Make) -> None:
    """Answers of 1 to 100 tokens, half of them under a cap of 40: the median is that without a cap."""
    policy = ByLength(enough_answers=1)
    for tokens in range(1, 101):
        policy.observe(make_entry(output_tokens=tokens))
        cut = tokens > 40
        policy.observe(make_entry(output_tokens=min(tokens, 40), finish_reason="length" if cut else "stop"))
    forecast = policy.forecast(make_request("hi"))
    assert 50 == forecast.output_tokens_p50
    assert 90 == forecast.output_tokens_p90


def test_where_all_answers_are_cut_the_longest_is_the_forecast(make_request: Make, make_entry: Make) -> None:
    """The best lower bound there is."""
    policy = ByLength(enough_answers=1)
    _learn(policy, make_entry, [16, 64, 32], finish_reason="length")
    forecast = policy.forecast(make_request("hi"))
    assert (64, 64) == (forecast.output_tokens_p50, forecast.output_tokens_p90)


def test_it_forgets_what_is_old(make_request: Make, make_entry: Make) -> None:
    """The 256 latest answers count."""
    policy = ByLength()
    _learn(policy, make_entry, [1000] * 300)
    _learn(policy, make_entry, [10] * 256)
    forecast = policy.forecast(make_request("hi"))
    assert (10, 10) == (forecast.output_tokens_p50, forecast.output_tokens_p90)


def test_it_learns_per_choice(make_request: Make, make_entry: Make) -> None:
    """Usage counts all choices of an answer together."""
    policy = ByLength(enough_answers=1)
    policy.observe(make_entry(make_request("hi", n=4), output_tokens=400))
    assert 100 == policy.forecast(make_request("hi")).output_tokens_p50


def test_it_learns_only_from_answers_that_ended_well_and_were_counted(make_request: Make, make_entry: Make) -> None:
    """Not from failures, hang-ups, our own estimates, missing usage, or refused bodies."""
    policy = ByLength(enough_answers=1)
    for status in set(Status) - {Status.OK}:
        policy.observe(make_entry(status=status, output_tokens=9))
    policy.observe(make_entry(usage=Usage(output_tokens=9, estimated=True)))
    good = make_entry(output_tokens=9)
    policy.observe(replace(good, attempts=(replace(good.attempts[0], usage=None),)))
    policy.observe(replace(good, attempts=()))
    policy.observe(replace(good, request=None))
    assert 255 == policy.forecast(make_request("hi")).output_tokens_p50
    policy.observe(good)
    assert 9 == policy.forecast(make_request("hi")).output_tokens_p50


def test_names_of_models_are_bounded_and_the_latest_are_kept(make_request: Make, make_entry: Make) -> None:
    """Clients choose them."""
    policy = ByLength(enough_answers=1)
    policy.observe(make_entry(make_request("hi", model="kept"), output_tokens=9))
    for number in range(600):
        policy.observe(make_entry(make_request("hi", model=f"m{number}"), output_tokens=9))
        policy.observe(make_entry(make_request("hi", model="kept"), output_tokens=9))
    assert 512 == len(policy._answers)
    assert 9 == policy.forecast(make_request("hi", model="kept")).output_tokens_p50
    assert 255 == policy.forecast(make_request("hi", model="m0")).output_tokens_p50


@pytest.mark.parametrize(
    "parameters",
    [
        {"bytes_per_token": 0.0},
        {"message_tokens": -1},
        {"image_tokens": -1},
        {"prior_p50_tokens": -1},
        {"prior_p90_tokens": 10},
        {"enough_answers": 0},
        {"enough_answers": 257},
    ],
)
def test_a_parameter_out_of_range_is_named(parameters: dict[str, Any]) -> None:
    """So that the loader can say where it stands."""
    with pytest.raises(ValueError, match=f"`{next(iter(parameters))}`"):
        ByLength(**parameters)
