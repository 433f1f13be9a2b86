"""Who is taken out, and with which words."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gateway.errors import ContextLengthExceeded, Unsupported
from gateway.types import Operation
from policies.filter.capable import Capable
from policies.filter.fits_context import FitsContext
from policies.filter.healthy import Healthy

Make = Callable[..., Any]


def test_a_candidate_that_is_down_is_out_with_its_own_reason(make_context: Make, make_candidate: Make) -> None:
    """And the client is not blamed."""
    assert "starting" == Healthy().exclude(make_context(), make_candidate(down="starting"))
    assert Healthy().exclude(make_context(), make_candidate()) is None
    assert Healthy.refusal is None


@pytest.mark.parametrize(
    ("prompt_tokens", "max_tokens", "reason"),
    [
        (8000, None, None),
        (16_000, None, None),  # an estimate, perhaps twice too high
        (16_382, None, None),
        (16_384, None, "needs about 16385 tokens of 8192"),
        (1000, 7692, None),
        (1000, 7693, "needs about 8693 tokens of 8192"),
        (1, 8193, "needs about 8194 tokens of 8192"),
    ],
)
def test_only_what_clearly_does_not_fit_is_out(
    make_context: Make,
    make_candidate: Make,
    make_request: Make,
    prompt_tokens: int,
    max_tokens: int | None,
    reason: str | None,
) -> None:
    """The prompt is an estimate, and called one; what the client allows the answer is exact."""
    ctx = make_context(make_request("hi", max_tokens=max_tokens), prompt_tokens=prompt_tokens)
    assert reason == FitsContext().exclude(ctx, make_candidate(context_tokens=8192))


def test_an_unknown_window_takes_everything(make_context: Make, make_candidate: Make) -> None:
    """The backend itself refuses, with its numbers."""
    assert FitsContext().exclude(make_context(prompt_tokens=10**9), make_candidate(context_tokens=None)) is None
    assert ContextLengthExceeded is FitsContext.refusal


@pytest.mark.parametrize(
    ("prompt_tokens", "reason"),
    [(11_999, None), (12_000, "needs about 12001 tokens, and 6001 were too many"), (7000, None)],
)
def test_what_was_refused_as_too_long_tells_of_an_unknown_window(
    make_context: Make, make_candidate: Make, prompt_tokens: int, reason: str | None
) -> None:
    """What is clearly no shorter goes elsewhere at once; the estimates of two texts may differ by a factor."""
    refused = make_candidate(context_tokens=None, too_long_tokens=6001)
    assert reason == FitsContext().exclude(make_context(prompt_tokens=prompt_tokens), refused)


def test_the_answer_is_left_out_where_the_backend_cuts_it(
    make_context: Make, make_candidate: Make, make_request: Make
) -> None:
    """As some engines do."""
    ctx = make_context(make_request("hi", max_tokens=9000), prompt_tokens=10)
    assert FitsContext(count_max_tokens=False).exclude(ctx, make_candidate(context_tokens=8192)) is None


def test_each_of_several_prompts_has_the_window_for_itself(
    make_context: Any, make_candidate: Any, make_request: Any
) -> None:
    """A hundred short texts fit where one text of their length would not."""
    texts = tuple("word " * 100 for _ in range(100))
    for prompt, fits in ((texts, True), (" ".join(texts), False), ((1,) * 12_500, False)):
        ctx = make_context(make_request(prompt=prompt, max_tokens=0), prompt_tokens=12_500)
        assert fits is (FitsContext().exclude(ctx, make_candidate(context_tokens=512)) is None)


@pytest.mark.parametrize("margin", [-0.1, 1.0, float("nan")])
def test_a_margin_out_of_range_is_named(margin: float) -> None:
    """At 1 nothing would ever be too long."""
    with pytest.raises(ValueError, match="`margin`"):
        FitsContext(margin=margin)


def _raw(**fields: Any) -> dict[str, msgspec.Raw]:
    return {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in fields.items()}


def test_a_candidate_that_does_not_serve_the_operation_is_out(
    make_context: Make, make_candidate: Make, make_request: Make
) -> None:
    """Whatever else it can."""
    ctx = make_context(make_request(prompt="hi", operation=Operation.COMPLETION))
    reason = Capable().exclude(ctx, make_candidate())
    assert ("does not serve `completion`", "model") == (reason, getattr(reason, "param", ""))
    assert Unsupported is Capable.refusal


def test_missing_capabilities_are_named(make_context: Make, make_candidate: Make, make_request: Make) -> None:
    """All of them; nobody's declaration means that it can."""
    ctx = make_context(make_request("hi", needs=frozenset({"vision", "tools", "logprobs"})))
    candidate = make_candidate(capabilities=frozenset({"tools"}))
    assert "has no `logprobs`, `vision`" == Capable().exclude(ctx, candidate)
    assert Capable().exclude(ctx, make_candidate(capabilities=None)) is None


@pytest.mark.parametrize(
    ("need", "fields", "param"),
    [
        ("tools", {"messages": [], "tools": [{}]}, "tools"),
        ("tools", {"functions": [{}], "tools": []}, "functions"),
        ("vision", {"messages": [{}]}, "messages"),
        ("vision", {"model": "m", "input": [{}]}, "input"),
        ("json_schema", {"response_format": {"type": "json_schema"}}, "response_format"),
        ("json_schema", {"output_config": {"format": {}}}, "output_config"),
        ("json_mode", {"text": {"format": {}}}, "text"),
        ("logprobs", {"logprobs": False, "top_logprobs": 2}, "top_logprobs"),
        ("many", {"n": 2}, "n"),
        ("many", {"n": 1, "prompt": ["a", "b"]}, "prompt"),
        ("penalties", {"presence_penalty": 0, "frequency_penalty": 1}, "frequency_penalty"),
        ("logit_bias", {"logit_bias": {"1": 5}}, "logit_bias"),
        ("raw_prompt", {"prompt": "x"}, "prompt"),
        ("of_a_plugin", {"prompt": "x"}, None),
    ],
)
def test_a_missing_capability_is_blamed_on_the_field_that_calls_for_it(
    make_context: Make, make_candidate: Make, make_request: Make, need: str, fields: dict[str, Any], param: str | None
) -> None:
    """By the client's own name for it, so that it knows what to leave out."""
    ctx = make_context(make_request("hi", needs=frozenset({need}), raw=_raw(**fields)))
    reason = Capable().exclude(ctx, make_candidate(capabilities=frozenset()))
    assert param == getattr(reason, "param", "none at all")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"temperature": 0.2}, None),
        ({"logit_bias": {"1": 5}}, "takes no `logit_bias`"),
        ({"seed": 1, "logit_bias": {"1": 5}}, "takes no `logit_bias`, `seed`"),
        ({"from_the_future": True}, "takes no `from_the_future`"),
        ({"user": "u", "metadata": {"a": "b"}, "store": True, "service_tier": "flex"}, None),
        ({"stream": True, "stream_options": {"include_usage": True}, "model": "m", "messages": []}, None),
        ({"seed": None, "logit_bias": {}, "presence_penalty": 0.0, "n": 1, "tools": []}, None),
        ({"n": 2}, "takes no `n`"),
        ({"presence_penalty": 0.1}, "takes no `presence_penalty`"),
        ({"from_the_future": 0}, "takes no `from_the_future`"),
    ],
)
def test_a_field_that_could_change_the_answer_is_never_lost(
    make_context: Make, make_candidate: Make, make_request: Make, fields: dict[str, Any], reason: str | None
) -> None:
    """It is named; what cannot change it, by its nature or by its value, is no reason to refuse."""
    ctx = make_context(make_request("hi", raw=_raw(**fields)))
    candidate = make_candidate(carries=frozenset({"messages", "temperature", "max_tokens"}))
    assert reason == Capable().exclude(ctx, candidate)
    assert Capable().exclude(ctx, make_candidate(carries=None)) is None


@pytest.mark.parametrize("value", [b'{"a":1e999}', b"1" * 5000])
def test_a_value_that_no_number_can_hold_is_lost_like_any_other(
    make_context: Make, make_candidate: Make, make_request: Make, value: bytes
) -> None:
    """It is not neutral, and looking at it breaks nothing."""
    ctx = make_context(make_request("hi", raw={"zzz": value}))
    assert "takes no `zzz`" == Capable().exclude(ctx, make_candidate(carries=frozenset({"messages"})))


def test_a_route_may_allow_a_loss(make_context: Make, make_candidate: Make, make_request: Make) -> None:
    """Because it says so, field by field."""
    ctx = make_context(make_request("hi", raw=_raw(seed=1, logit_bias={"1": 5})))
    candidate = make_candidate(carries=frozenset({"messages"}))
    assert "takes no `logit_bias`" == Capable(may_drop=("seed",)).exclude(ctx, candidate)
