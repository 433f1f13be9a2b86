from typing import Any

import msgspec
import pytest

from backends._engine_request import CARRIES, generations
from embedded_engine.messages import ChatMessage, Generate
from embedded_engine.speculative import Speculative
from embedded_engine.turns import PastCall, Reasoning
from gateway.errors import UpstreamRefused
from gateway.types import Operation

COMPLETION = Operation.COMPLETION
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOL = {"type": "function", "function": {"name": "f", "description": "does f", "parameters": PARAMETERS}}


def test_a_conversation(make_call: Any) -> None:
    """Roles, names and texts go over; parts are joined; a developer speaks as the system; null is no text."""
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "name": "ann", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None},
    ]
    (actual,) = generations(make_call(messages=messages))
    expected = (
        ChatMessage(role="system", content="Be brief."),
        ChatMessage(role="user", name="ann", content="ab"),
        ChatMessage(role="assistant", content=""),
    )
    assert expected == actual.messages


def test_what_is_said_of_sampling(make_call: Any) -> None:
    """Every field of sampling goes over; zero is a value; ``top_k`` -1 is none."""
    fields = {"temperature": 0, "top_p": 0.5, "top_k": -1, "min_p": 0.1, "seed": -1, "stop": "x", "n": 3}
    (actual,) = generations(make_call(max_completion_tokens=9, **fields))
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
    (actual,) = generations(make_call(operation))
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
    actual: tuple[Generate, ...] = generations(make_call(COMPLETION, prompt=prompt))
    assert expected == [(it.text, it.token_ids) for it in actual]


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "narrator", "content": "x"}, "messages[0].role"),
        (
            {"role": "assistant", "tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "f"}}]},
            "messages[0].tool_calls[0].type",
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
        generations(make_call(messages=[message]))
    assert (param, "unsupported_parameter", 400) == (
        caught.value.param,
        caught.value.upstream_code,
        caught.value.http_status,
    )


def test_an_answer_of_no_tokens(make_call: Any) -> None:
    """A completion of zero tokens is refused, unless it is to score its prompt."""
    with pytest.raises(UpstreamRefused, match="at least 1"):
        generations(make_call(COMPLETION, max_tokens=0))
    (scored,) = generations(make_call(COMPLETION, max_tokens=0, echo=True, logprobs=2))
    assert (0, True, 2) == (scored.max_tokens, scored.echo, scored.logprobs)


def test_calls_and_results_of_earlier_turns(make_call: Any) -> None:
    """They go over with their ids; a call without arguments has an empty object of them."""
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"id": "c2", "type": "function", "function": {"name": "g", "arguments": ""}},
    ]
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "content": "7", "tool_call_id": "c1"},
    ]
    (actual,) = generations(make_call(messages=messages))
    assert actual.messages is not None
    expected_calls = (PastCall(id="c1", name="f", arguments='{"a": 1}'), PastCall(id="c2", name="g", arguments="{}"))
    assert ChatMessage(role="assistant", content="", calls=expected_calls) == actual.messages[1]
    assert ChatMessage(role="tool", content="7", call_id="c1") == actual.messages[2]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, ("auto", "")),
        ("auto", ("auto", "")),
        ("none", ("none", "")),
        ("required", ("required", "")),
        ({"type": "function", "function": {"name": "f"}}, ("function", "f")),
    ],
)
def test_tools_and_how_they_may_be_called(make_call: Any, choice: Any, expected: tuple[str, str]) -> None:
    """Every choice that OpenAI documents for functions."""
    (actual,) = generations(make_call(tools=[TOOL], tool_choice=choice, parallel_tool_calls=False))
    (tool,) = actual.tools
    assert ("f", "does f", {"type": "object", "properties": {"a": {"type": "integer"}}}) == (
        tool.name,
        tool.description,
        msgspec.json.decode(tool.parameters),
    )
    assert expected == (actual.tool_choice, actual.tool_name)
    assert not actual.parallel_tool_calls


@pytest.mark.parametrize(
    ("fields", "kind", "text", "param"),
    [
        ({"response_format": {"type": "json_object"}}, "json_object", "", "response_format"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"a": 1}}}},
            "json_schema",
            '{"a":1}',
            "response_format.json_schema.schema",
        ),
        ({"structured_outputs": {"regex": "a+"}}, "regex", "a+", "structured_outputs.regex"),
        ({"structured_outputs": {"choice": ["a", "b"]}}, "choice", '["a","b"]', "structured_outputs.choice"),
        ({"structured_outputs": {"json": {"a": 1}}}, "json_schema", '{"a":1}', "structured_outputs.json"),
        ({"structured_outputs": {"json_object": True}}, "json_object", "", "structured_outputs.json_object"),
        ({"guided_grammar": 'start: "a"'}, "lark", 'start: "a"', "guided_grammar"),
        ({"guided_json": '{"a":1}'}, "json_schema", '{"a":1}', "guided_json"),
        ({"guided_choice": ["a"]}, "choice", '["a"]', "guided_choice"),
        ({"guided_regex": "a"}, "regex", "a", "guided_regex"),
    ],
)
def test_what_an_answer_must_look_like(
    make_call: Any, fields: dict[str, Any], kind: str, text: str, param: str
) -> None:
    """OpenAI's field, and vLLM's own, new and old; an error of the engine will name the field."""
    (actual,) = generations(make_call(**fields))
    assert actual.grammar is not None
    assert (kind, text, param) == (actual.grammar.kind, actual.grammar.text, actual.grammar.param)


def test_a_strict_schema_is_strict_and_text_is_no_form(make_call: Any) -> None:
    """Only where the client says so is a keyword that cannot be kept an error."""
    for strict in (True, False):
        wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": strict}}
        (actual,) = generations(make_call(response_format=wanted))
        assert actual.grammar is not None
        assert strict is actual.grammar.strict
    (plain,) = generations(make_call(response_format={"type": "text"}))
    assert plain.grammar is None


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Reasoning()),
        ({"reasoning_effort": "low"}, Reasoning(enabled=True, effort="low")),
        ({"reasoning_effort": "none"}, Reasoning(enabled=False, effort="none")),
        ({"reasoning": {"max_tokens": 9}}, Reasoning(max_tokens=9)),
        ({"reasoning": {"max_tokens": 9}, "reasoning_effort": "low"}, Reasoning(max_tokens=9)),
        (
            {"reasoning": {"effort": "high", "on_exceed": "stop"}},
            Reasoning(enabled=True, effort="high", on_exceed="stop"),
        ),
        ({"reasoning": {"min_tokens": 3, "enabled": True}}, Reasoning(enabled=True, min_tokens=3)),
        ({"thinking": {"type": "enabled", "budget_tokens": 5}}, Reasoning(enabled=True, max_tokens=5)),
        ({"thinking": {"type": "disabled"}}, Reasoning(enabled=False)),
    ],
)
def test_how_long_to_think(make_call: Any, fields: dict[str, Any], expected: Reasoning) -> None:
    """In the words of three providers."""
    (actual,) = generations(make_call(**fields))
    assert expected == actual.reasoning


@pytest.mark.parametrize(
    ("content", "expected"), [("ab", "ab"), ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab")]
)
def test_a_prediction(make_call: Any, content: Any, expected: str) -> None:
    """Text, or parts of it; whose it is goes with it, since nobody else may profit."""
    (actual,) = generations(make_call(prediction={"type": "content", "content": content}))
    assert (expected, "t") == (actual.prediction, actual.scope)


def test_how_fast(make_call: Any) -> None:
    """The engine's own field."""
    (actual,) = generations(make_call(speculative={"enabled": False, "n_max": 3, "exactness": "strict"}))
    assert Speculative(enabled=False, n_max=3, exactness="strict") == actual.speculative


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tool_choice": "always"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag"),
        ({"guided_regex": 1}, "guided_regex"),
        ({"guided_regex": "a", "response_format": {"type": "json_object"}}, "guided_regex"),
        ({"reasoning": {"effort": "low", "max_tokens": 1}}, "reasoning"),
        ({"reasoning": {"budget": 1}}, "reasoning"),
        ({"thinking": {"type": "maybe"}}, "thinking"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"logit_bias": {"9" * 20: 1}}, "logit_bias"),
        ({"logit_bias": {"9" * 5000: 1}}, "logit_bias"),
        ({"prediction": {"type": "file", "content": "x"}}, "prediction"),
        ({"prediction": {"type": "content", "content": [{"type": "image"}]}}, "prediction.content"),
        ({"speculative": {"n_max": "many"}}, "speculative"),
        ({"speculative": {"n_most": 3}}, "speculative"),
        ({"min_tokens": "x"}, "min_tokens"),
        ({"chat_template_kwargs": []}, "chat_template_kwargs"),
    ],
)
def test_a_field_that_it_cannot_take_is_named(make_call: Any, fields: dict[str, Any], param: str) -> None:
    """By its path in the body."""
    with pytest.raises(UpstreamRefused) as caught:
        generations(make_call(**fields))
    assert (param, 400) == (caught.value.param, caught.value.http_status)


def test_every_field_that_it_says_it_carries_changes_the_request(make_call: Any) -> None:
    """What ``carries`` promises is read: each of these makes the engine's request another one."""
    values = {"max_tokens": 5, "max_completion_tokens": 5, "stop": "x", "n": 2, "seed": 1, "top_k": 2}
    values |= {"min_p": 0.5, "temperature": 0.5, "top_p": 0.5, "repetition_penalty": 1.5, "presence_penalty": 0.5}
    values |= {"frequency_penalty": 0.5, "logit_bias": {"5": 1}, "min_tokens": 2, "ignore_eos": True, "logprobs": True}
    values |= {"tools": [TOOL], "response_format": {"type": "json_object"}, "reasoning_effort": "low"}
    values |= {"reasoning": {"max_tokens": 1}, "thinking": {"budget_tokens": 1}, "parallel_tool_calls": False}
    values |= {
        "prediction": {"type": "content", "content": "x"},
        "speculative": {"enabled": False},
        "tool_choice": "required",
    }
    values |= {"chat_template_kwargs": {"a": 1}, "structured_outputs": {"regex": "a"}, "continue_final_message": True}
    values |= {"guided_json": {}, "guided_regex": "a", "guided_choice": ["a"], "guided_grammar": "a"}
    plain = generations(make_call())
    assert [] == [name for name in values if generations(make_call(**{name: values[name]})) == plain]
    beside = {
        "add_generation_prompt",
        "top_logprobs",
        "echo",
        "messages",
        "model",
        "prompt",
        "stream",
        "stream_options",
        "user",
    }
    beside |= {"add_generation_prompt", "dimensions", "encoding_format", "input"}
    assert CARRIES[True] == values.keys() | beside


def test_a_model_that_does_not_think_carries_no_fields_about_it() -> None:
    """They would be dropped in silence."""
    assert {"reasoning", "reasoning_effort", "thinking"} == CARRIES[True] - CARRIES[False]


_BEGUN = [{"role": "user", "content": "why?"}, {"role": "assistant", "content": "It is"}]


@pytest.mark.parametrize("said", [{}, {"add_generation_prompt": False}])
def test_the_last_message_is_continued_by_vllms_name(make_call: Any, said: dict[str, bool]) -> None:
    """``continue_final_message`` goes over, with or without its companion."""
    (actual,) = generations(make_call(messages=_BEGUN, continue_final_message=True, **said))
    assert actual.continues
    (plain,) = generations(make_call(messages=_BEGUN, add_generation_prompt=True))
    assert not plain.continues


@pytest.mark.parametrize("continues", [True, False])
def test_companions_that_contradict_each_other_are_refused(make_call: Any, continues: bool) -> None:
    """As vLLM does; and a prompt without the beginning of an answer is for completions."""
    call = make_call(messages=_BEGUN, continue_final_message=continues, add_generation_prompt=continues)
    with pytest.raises(UpstreamRefused) as caught:
        generations(call)
    assert "add_generation_prompt" == caught.value.param
