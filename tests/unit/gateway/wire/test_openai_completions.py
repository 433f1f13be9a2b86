"""What a completion's body becomes, and which bodies become nothing."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from openai.types.completion_create_params import CompletionCreateParamsBase

from gateway.errors import InvalidRequest, UpstreamError
from gateway.types import Arrival, ChatRequest, Operation
from gateway.wire.format import BodyLimits
from gateway.wire.formats import FORMATS

COMPLETION = FORMATS[Operation.COMPLETION]
Read = Callable[..., ChatRequest]


@pytest.mark.parametrize(
    ("given", "prompt", "prompt_bytes", "needs"),
    [
        ("é", "é", 2, set()),
        ("", "", 0, set()),
        (["a", "日"], ("a", "日"), 4, {"many"}),
        (["a"], ("a",), 1, set()),
        ([1, 2, 0], (1, 2, 0), 12, {"token_prompt"}),
        ([[1, 2], [3]], ((1, 2), (3,)), 12, {"token_prompt", "many"}),
    ],
)
def test_a_prompt_has_four_shapes(
    given: Any, prompt: Any, prompt_bytes: int, needs: set[str], read_completion: Read
) -> None:
    """Text, texts, tokens, or those of several."""
    request = read_completion(prompt=given)
    assert (prompt, prompt_bytes, ()) == (request.prompt, request.prompt_bytes, request.messages)
    assert {"raw_prompt"} | needs == request.needs


@pytest.mark.parametrize(
    "prompt",
    [None, [], 7, True, {}, [True], [1, True], [1, "a"], ["a", 1], [[]], [[1], []], [["a"]], [[1], 2], [-1], [1.0]],
)
def test_a_prompt_of_another_shape_is_refused(prompt: Any, read_completion: Read) -> None:
    """By name; a boolean is no token."""
    with pytest.raises(InvalidRequest) as caught:
        read_completion(prompt=prompt)
    assert "prompt" == caught.value.param


def test_a_prompt_is_required(arrival: Arrival) -> None:
    """There is no silent default."""
    with pytest.raises(InvalidRequest, match="prompt is required"):
        COMPLETION.read(arrival, b'{"model":"m"}')


def test_prompts_are_counted_and_tokens_are_not(arrival: Arrival) -> None:
    """A limit on prompts does not shorten one."""
    limits = BodyLimits(max_messages=2)
    assert 3 == len(COMPLETION.read(arrival, b'{"model":"m","prompt":[1,2,3]}', limits).prompt or ())
    with pytest.raises(InvalidRequest, match="at most 2 prompts"):
        COMPLETION.read(arrival, b'{"model":"m","prompt":["a","b","c"]}', limits)


@pytest.mark.parametrize(
    ("fields", "choices"), [({}, 1), ({"n": 2}, 2), ({"prompt": ["a", "b"], "n": 2}, 4), ({"prompt": [1, 2]}, 1)]
)
def test_each_prompt_has_n_choices(fields: dict[str, Any], choices: int, read_completion: Read) -> None:
    """The answer is complete when all of them have finished."""
    look = COMPLETION.stream(read_completion(stream=True, **fields))
    for index in range(choices):
        with pytest.raises(UpstreamError):
            look.end()
        choice = {"index": index, "text": "x", "finish_reason": "stop"}
        look.feed(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")
    assert b"data: [DONE]\n\n" == look.end()


@pytest.mark.parametrize(
    ("fields", "need"),
    [
        ({"echo": True}, "echo"),
        ({"suffix": "x"}, "suffix"),
        ({"best_of": 2}, "best_of"),
        ({"logprobs": 0}, "logprobs"),
        ({"n": 2, "best_of": 2}, "many"),
        ({"frequency_penalty": 1}, "penalties"),
        ({"logit_bias": {"1": 1}}, "logit_bias"),
    ],
)
def test_a_request_says_what_it_needs(fields: dict[str, Any], need: str, read_completion: Read) -> None:
    """So that it only goes where it can be served."""
    assert need in read_completion(**fields).needs
    assert {"raw_prompt"} == read_completion().needs


@pytest.mark.parametrize("name", sorted(CompletionCreateParamsBase.__annotations__))
def test_every_documented_field_reaches_the_upstream(name: str, read_completion: Read) -> None:
    """With the value that the client gave it."""
    value: Any = {
        "model": "m",
        "prompt": "p",
        "best_of": 2,
        "echo": True,
        "frequency_penalty": 0.25,
        "logit_bias": {"50256": -100},
        "logprobs": 0,
        "max_tokens": 0,
        "n": 3,
        "presence_penalty": -0.25,
        "seed": 0,
        "stop": ["a"],
        "stream_options": {"include_usage": True},
        "suffix": "s",
        "temperature": 0,
        "top_p": 0.5,
        "user": "u",
    }.get(name, {"marked": name})
    fields = {name: value, "stream": True} if name == "stream_options" else {name: value}
    assert value == json.loads(COMPLETION.upstream_body(read_completion(**fields), "m"))[name]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"best_of": 1, "n": 2}, "best_of"),
        ({"best_of": 2, "stream": True}, "best_of"),
        ({"echo": 1}, "echo"),
        ({"suffix": 1}, "suffix"),
        ({"logprobs": True}, "logprobs"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"n": True}, "n"),
        ({"stop": ["a"] * 17}, "stop"),
        ({"stream_options": {}}, "stream_options"),
        ({"api_base": "http://10.0.0.1"}, "api_base"),
    ],
)
def test_a_wrong_field_is_refused_by_name(fields: dict[str, Any], param: str, read_completion: Read) -> None:
    """As in a chat."""
    with pytest.raises(InvalidRequest) as caught:
        read_completion(**fields)
    assert param == caught.value.param
