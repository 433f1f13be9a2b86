"""A chat as Anthropic's body: each field forwarded, mapped, or refused by its name."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.errors import UpstreamRefused
from gateway.types import ChatRequest
from gateway.wire.anthropic_blocks import ERROR_MARK
from gateway.wire.chat_to_anthropic import Terms, anthropic_body
from gateway.wire.chat_turns_to_anthropic import EMPTY

TERMS = Terms(max_tokens=4096, thinking="budget")
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
MARK = {"type": "ephemeral"}

Body = Callable[..., dict[str, Any]]


@pytest.fixture
def body(read_chat: Callable[..., ChatRequest]) -> Body:
    """Anthropic's body for a chat made of the given fields."""

    def make(terms: Terms = TERMS, **fields: Any) -> dict[str, Any]:
        made: dict[str, Any] = json.loads(anthropic_body(read_chat(**fields), "claude", terms))
        return made

    return make


def text(words: str) -> dict[str, Any]:
    """A block of text."""
    return {"type": "text", "text": words}


def test_the_smallest_chat(body: Body) -> None:
    """Anthropic wants a limit, and is given one."""
    expected = {"model": "claude", "max_tokens": 4096, "messages": [{"role": "user", "content": [text("hi")]}]}
    assert expected == body()


FIELDS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"max_tokens": 7}, {"max_tokens": 7}),
    ({"max_completion_tokens": 8}, {"max_tokens": 8}),
    ({"temperature": 0}, {"temperature": 0}),
    ({"top_p": 0}, {"top_p": 0}),
    ({"top_k": 5}, {"top_k": 5}),
    ({"stop": "x"}, {"stop_sequences": ["x"]}),
    ({"stop": ["x", "y"]}, {"stop_sequences": ["x", "y"]}),
    ({"user": "u"}, {"metadata": {"user_id": "u"}}),
    ({"stream": True}, {"stream": True}),
    ({"cache_control": MARK}, {"cache_control": MARK}),
    ({"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}),
    ({"reasoning_effort": "low"}, {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
    ({"reasoning_effort": "high"}, {"thinking": {"type": "enabled", "budget_tokens": 3072}}),
    ({"thinking": {"type": "enabled", "budget_tokens": 99}}, {"thinking": {"type": "enabled", "budget_tokens": 99}}),
    ({"tools": [TOOL], "tool_choice": "none"}, {"tool_choice": {"type": "none"}}),
    ({"tools": [TOOL], "tool_choice": "required"}, {"tool_choice": {"type": "any"}}),
    (
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"tool_choice": {"type": "tool", "name": "f"}},
    ),
    (
        {"tools": [TOOL], "parallel_tool_calls": False},
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    ),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}},
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
    ),
]


@pytest.mark.parametrize(("fields", "expected"), FIELDS)
def test_what_a_field_becomes(body: Body, fields: dict[str, Any], expected: dict[str, Any]) -> None:
    """Each value arrives, zero too."""
    made = body(**fields)
    assert expected == {name: made[name] for name in expected}


def test_an_effort_for_models_that_decide_for_themselves(body: Body) -> None:
    """As an effort, beside adaptive thinking."""
    made = body(Terms(max_tokens=4096, thinking="effort"), reasoning_effort="minimal")
    assert ({"type": "adaptive"}, {"effort": "low"}) == (made["thinking"], made["output_config"])


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"seed": 0}, "seed"),
    ({"n": 2}, "n"),
    ({"logprobs": True}, "logprobs"),
    ({"presence_penalty": 0.5}, "presence_penalty"),
    ({"logit_bias": {"1": 1}}, "logit_bias"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"reasoning_effort": "odd"}, "reasoning_effort"),
    ({"reasoning_effort": "low", "max_tokens": 100}, "reasoning_effort"),
    ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0]"),
    ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
    (
        {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]},
        "messages[0].content[0]",
    ),
    ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
    (
        {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]},
        "messages[0].content[0]",
    ),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED)
def test_what_has_no_place_is_refused_by_name(body: Body, fields: dict[str, Any], param: str) -> None:
    """Never dropped."""
    with pytest.raises(UpstreamRefused) as caught:
        body(**fields)
    assert (400, param) == (caught.value.http_status, caught.value.param)


QUIET: list[dict[str, Any]] = [
    {"n": 1, "presence_penalty": 0, "logprobs": False, "seed": None},
    {"store": False, "metadata": {"a": "b"}, "service_tier": "auto", "prompt_cache_key": "k"},
    {"stream": True, "stream_options": {"include_usage": True}},
]


@pytest.mark.parametrize("fields", QUIET)
def test_what_changes_no_answer_stays_behind(body: Body, fields: dict[str, Any]) -> None:
    """Books, and values that silence means."""
    made = body(**fields)
    made.pop("stream", None)
    assert body() == made


@pytest.mark.parametrize("content", [None, "", [], "absent"])
@pytest.mark.parametrize("calls", [True, False])
def test_an_assistant_without_words(body: Body, content: Any, calls: bool) -> None:
    """Its calls arrive, no text block is empty, and no turn is dropped."""
    turn: dict[str, Any] = {"role": "assistant", "content": content}
    if content == "absent":
        del turn["content"]
    if calls:
        turn["tool_calls"] = [CALL]
    after = [{"role": "tool", "tool_call_id": "c1", "content": ""}] if calls else []
    messages = [{"role": "user", "content": "q"}, turn, *after, {"role": "user", "content": "r"}]
    made = body(messages=messages)["messages"]
    called = {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}
    assert [called if calls else text(EMPTY)] == made[1]["content"]
    results = [{"type": "tool_result", "tool_use_id": "c1"}] if calls else []
    assert [*results, text("r")] == made[2]["content"]


def test_results_and_what_follows_are_one_turn(body: Body) -> None:
    """Of the user's, results first; the mark of a failure becomes Anthropic's again."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "high"}}
    made = body(
        messages=[
            {"role": "system", "content": "one"},
            {"role": "developer", "content": [text("two")]},
            {"role": "user", "content": "q", "name": "Ann"},
            {"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "c 2"}]},
            {"role": "tool", "tool_call_id": "c1", "content": f"{ERROR_MARK}bad"},
            {"role": "tool", "tool_call_id": "c 2", "content": [text("fine"), image]},
            {"role": "user", "content": [image, text("so?")]},
            {"role": "system", "content": "three"},
        ]
    )
    assert [text("one"), text("two")] == made["system"]
    assert [text("Ann: q")] == made["messages"][0]["content"]
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    renamed = made["messages"][1]["content"][1]["id"]
    assert [
        {"type": "tool_result", "tool_use_id": "c1", "is_error": True, "content": "bad"},
        {"type": "tool_result", "tool_use_id": renamed, "content": [text("fine"), picture]},
        picture,
        text("so?"),
    ] == made["messages"][2]["content"]
    assert renamed.startswith("c_2_")
    assert {"role": "system", "content": [text("three")]} == made["messages"][3]


def test_functions_of_before_there_were_tools(body: Body) -> None:
    """Calls get ids, by which their results find them."""
    function = {"name": "f", "parameters": {"type": "object"}}
    made = body(
        functions=[function],
        function_call={"name": "f"},
        messages=[
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "r"},
        ],
    )
    call, result = made["messages"][1]["content"][0], made["messages"][2]["content"][0]
    assert ({"type": "tool", "name": "f"}, "f") == (made["tool_choice"], made["tools"][0]["name"])
    assert (call["id"], "r") == (result["tool_use_id"], result["content"])


@pytest.mark.parametrize("marks", range(8))
def test_at_most_four_marks_of_the_cache(body: Body, marks: int) -> None:
    """The first stays, which stands before most of the prompt, and of the others the last ones."""
    parts = [{"type": "text", "text": str(at), "cache_control": MARK} for at in range(marks)]
    made = body(messages=[{"role": "user", "content": [*parts, text("end")]}])
    kept = [block["text"] for block in made["messages"][0]["content"] if "cache_control" in block]
    texts = [str(at) for at in range(marks)]
    assert (texts if marks <= 4 else [texts[0], *texts[-3:]]) == kept
