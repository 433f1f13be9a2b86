from typing import Any

import pytest

from backends._engine_request import CARRIES, generations
from embedded_engine.messages import ChatMessage, Generate
from gateway.errors import UpstreamRefused
from gateway.types import Operation

COMPLETION = Operation.COMPLETION


def test_a_conversation(make_call: Any) -> None:
    """Roles, names and texts go over; parts are joined; a developer speaks as the system; null is no text."""
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "name": "ann", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None},
    ]
    (actual,) = generations(make_call(messages=messages).request)
    expected = (
        ChatMessage(role="system", content="Be brief."),
        ChatMessage(role="user", name="ann", content="ab"),
        ChatMessage(role="assistant", content=""),
    )
    assert expected == actual.messages


def test_what_is_said_of_sampling(make_call: Any) -> None:
    """Every field of sampling goes over; zero is a value; ``top_k`` -1 is none."""
    fields = {"temperature": 0, "top_p": 0.5, "top_k": -1, "min_p": 0.1, "seed": -1, "stop": "x", "n": 3}
    (actual,) = generations(make_call(max_completion_tokens=9, **fields).request)
    assert (0.0, 0.5, 0, 0.1, ("x",), 3, 9) == (
        actual.temperature,
        actual.top_p,
        actual.top_k,
        actual.min_p,
        actual.stop,
        actual.n,
        actual.max_tokens,
    )
    assert 2**63 - 1 == actual.seed


@pytest.mark.parametrize(("operation", "expected"), [(Operation.CHAT, None), (COMPLETION, 16)])
def test_what_is_not_said(make_call: Any, operation: Operation, expected: int | None) -> None:
    """Left out, sampling is the model's own; an answer's length is free in a chat and OpenAI's 16 in a completion."""
    (actual,) = generations(make_call(operation).request)
    assert (1.0, 1.0, 0, 0.0, None, (), 1, expected) == (
        actual.temperature,
        actual.top_p,
        actual.top_k,
        actual.min_p,
        actual.seed,
        actual.stop,
        actual.n,
        actual.max_tokens,
    )


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("a", [("a", None)]),
        (["a", "b"], [("a", None), ("b", None)]),
        ([1, 2], [(None, (1, 2))]),
        ([[1, 2], [3]], [(None, (1, 2)), (None, (3,))]),
    ],
)
def test_each_shape_of_a_prompt(make_call: Any, prompt: Any, expected: list[Any]) -> None:
    """A text, texts, the tokens of one or of several: one engine request for each."""
    actual: tuple[Generate, ...] = generations(make_call(COMPLETION, prompt=prompt).request)
    assert expected == [(it.text, it.token_ids) for it in actual]


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "tool", "content": "x", "tool_call_id": "1"}, "messages[0].role"),
        ({"role": "narrator", "content": "x"}, "messages[0].role"),
        (
            {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f"}}]},
            "messages[0].tool_calls",
        ),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]},
            "messages[0].content[0].type",
        ),
    ],
)
def test_what_the_model_cannot_take_is_named(make_call: Any, message: dict[str, Any], param: str) -> None:
    """A turn that cannot be carried over is refused by its place, never dropped."""
    with pytest.raises(UpstreamRefused) as caught:
        generations(make_call(messages=[message]).request)
    assert (param, "unsupported_parameter", 400) == (
        caught.value.param,
        caught.value.upstream_code,
        caught.value.http_status,
    )


def test_an_answer_of_no_tokens(make_call: Any) -> None:
    """A completion of zero tokens is refused: the engine would take it for no bound."""
    with pytest.raises(UpstreamRefused, match="at least 1"):
        generations(make_call(COMPLETION, max_tokens=0).request)


def test_every_field_that_it_says_it_carries_changes_the_request(make_call: Any) -> None:
    """What ``carries`` promises is read: each sampling field makes the engine's request another one."""
    values = {"max_tokens": 5, "max_completion_tokens": 5, "stop": "x", "n": 2, "seed": 1, "top_k": 2}
    values |= {"min_p": 0.5, "temperature": 0.5, "top_p": 0.5}
    plain = generations(make_call().request)
    assert values.keys() <= CARRIES
    assert [] == [name for name in values if generations(make_call(**{name: values[name]}).request) == plain]
