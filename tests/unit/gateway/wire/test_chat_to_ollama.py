"""OpenAI's bodies as Ollama's."""

import json
from typing import Any

import pytest

from gateway.errors import UpstreamRefused
from gateway.types import Operation
from gateway.wire.chat_to_ollama import Terms, chat_body, completion_body, embed_body
from tests.unit.gateway.wire.ollama_calls import request_of

PNG = "iVBORw0KGgo="
PICTURE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
FUNCTION = {"name": "f", "description": "d", "parameters": {"type": "object"}}
TOOL = {"type": "function", "function": FUNCTION}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
ASKED = {"role": "user", "content": "hi"}


def body(terms: Terms | None = None, **fields: Any) -> dict[str, Any]:
    """What goes up for a chat."""
    told: dict[str, Any] = json.loads(chat_body(request_of(Operation.CHAT, **fields), "there", terms or Terms()))
    return told


def turn(**message: Any) -> dict[str, Any]:
    """What becomes of one message."""
    told: dict[str, Any] = body(messages=[message])["messages"][0]
    return told


def test_a_plain_chat_is_one() -> None:
    """It is said whether to stream, and a prompt that is too long is to be refused and not cut."""
    told = {"model": "there", "messages": [ASKED], "stream": True, "truncate": False, "shift": False}
    assert told == body(stream=True)


def test_how_tokens_are_drawn_are_options() -> None:
    """What a chat leaves out is the model's own to say; what it says goes on, though it be OpenAI's usual value."""
    fields = {"temperature": 1, "top_p": 1, "top_k": 5, "min_p": 0.1, "seed": 7, "repetition_penalty": 1.1}
    told = body(**fields, max_tokens=9, stop="x", presence_penalty=0.5, frequency_penalty=0)["options"]
    same = {name: fields[name] for name in ("temperature", "top_p", "top_k", "min_p", "seed")}
    assert {**same, "repeat_penalty": 1.1, "num_predict": 9, "stop": ["x"], "presence_penalty": 0.5} == told


def test_terms_go_with_every_request() -> None:
    """The window that is to be loaded, and for how long it stays so."""
    terms = Terms(num_ctx=16384, keep_alive="10m")
    assert ("10m", {"num_ctx": 16384}) == (body(terms)["keep_alive"], body(terms)["options"])
    vectors = json.loads(embed_body(request_of(Operation.EMBEDDING), "there", terms))
    assert ("10m", {"num_ctx": 16384}, False) == (vectors["keep_alive"], vectors["options"], vectors["truncate"])


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"reasoning_effort": "none"}, False),
        ({"reasoning_effort": "minimal"}, "low"),
        ({"reasoning_effort": "high"}, "high"),
        ({"reasoning_effort": "xhigh"}, "max"),
        ({"thinking": {"type": "disabled"}}, False),
        ({"thinking": {"type": "enabled", "budget_tokens": 9}}, True),
        ({}, None),
    ],
)
def test_efforts_are_thinking(fields: dict[str, Any], told: Any) -> None:
    """None of it turns it off."""
    assert told == body(**fields).get("think")


def test_forms_are_formats() -> None:
    """A schema as it stands, or any JSON."""
    assert "json" == body(response_format={"type": "json_object"})["format"]
    named = {"name": "n", "schema": {"type": "object"}, "strict": True}
    assert {"type": "object"} == body(response_format={"type": "json_schema", "json_schema": named})["format"]
    assert "format" not in body(response_format={"type": "text"})


@pytest.mark.parametrize(
    ("fields", "offered"),
    [
        ({"tools": [TOOL]}, True),
        ({"tools": [TOOL], "tool_choice": "auto", "parallel_tool_calls": True}, True),
        ({"tools": [TOOL], "tool_choice": "none"}, False),
        ({"functions": [FUNCTION], "function_call": "auto"}, True),
    ],
)
def test_tools_are_offered(fields: dict[str, Any], offered: bool) -> None:
    """The model chooses for itself; who may call none is shown none."""
    assert ([TOOL] if offered else None) == body(**fields).get("tools")


def test_log_probabilities_are_asked_for() -> None:
    """With as many others as the client wants."""
    told = body(logprobs=True, top_logprobs=3)
    assert (True, 3) == (told["logprobs"], told["top_logprobs"])


def test_pictures_and_sound_go_beside_the_text() -> None:
    """Without a word on what they are."""
    sound = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    parts = [{"type": "text", "text": "see "}, PICTURE, {"type": "text", "text": "this"}, sound]
    assert {"role": "user", "content": "see this", "images": [PNG, "UklGRg=="]} == turn(role="user", content=parts)


def test_roles_and_names_are_ollamas() -> None:
    """Instructions are the system's; who speaks stands before what they say."""
    assert {"role": "system", "content": "s"} == turn(role="developer", content="s")
    assert {"role": "user", "content": "Ann: hi"} == turn(role="user", content="hi", name="Ann")
    assert {"role": "assistant", "content": "no"} == turn(role="assistant", content=None, refusal="no")


def test_calls_and_results_are_ollamas() -> None:
    """Arguments are objects; a result names the function that its call named."""
    spoken = {"role": "assistant", "content": "a", "reasoning_content": "hm", "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "r"}
    _, made, told = body(messages=[ASKED, spoken, result])["messages"]
    assert [{"id": "c1", "function": {"name": "f", "arguments": {"a": 1}}}] == made["tool_calls"]
    assert ("a", "hm") == (made["content"], made["thinking"])
    assert {"role": "tool", "content": "r", "tool_name": "f", "tool_call_id": "c1"} == told
    legacy = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    _, made, told = body(messages=[ASKED, legacy, {"role": "function", "name": "f", "content": "r"}])["messages"]
    assert ([{"function": {"name": "f", "arguments": {}}}], "f") == (made["tool_calls"], told["tool_name"])


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 2}, "n"),
        ({"logit_bias": {"1": 1}}, "logit_bias"),
        ({"future": 1}, "future"),
        ({"parallel_tool_calls": False}, "parallel_tool_calls"),
        ({"tools": [TOOL], "tool_choice": "required"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": TOOL}, "tool_choice"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"response_format": {"type": "grammar"}}, "response_format"),
        ({"reasoning_effort": "odd"}, "reasoning_effort"),
        ({"messages": [{"role": "user", "content": [{"type": "file", "file": {}}]}]}, "messages[0].content[0]"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a/b"}}]}]},
            "messages[0].content[0]",
        ),
        ({"messages": [{"role": "odd", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "assistant", "content": "x", "audio": {"id": "a"}}]}, "messages[0].audio"),
        (
            {"messages": [{"role": "assistant", "content": "", "tool_calls": [{"type": "custom"}]}]},
            "messages[0].tool_calls[0]",
        ),
    ],
)
def test_what_has_no_place_is_named(fields: dict[str, Any], param: str) -> None:
    """Where no filter did before."""
    with pytest.raises(UpstreamRefused) as caught:
        body(**fields)
    assert param == caught.value.param


def test_a_completion_has_no_template() -> None:
    """Unless there is something behind it to lead to."""
    plain = json.loads(completion_body(request_of(Operation.COMPLETION, max_tokens=5), "there", Terms()))
    uncut = {"truncate": False, "shift": False}
    told = {"model": "there", "prompt": "hi", "stream": False, "raw": True, **uncut, "options": {"num_predict": 5}}
    assert told == plain
    filled = json.loads(completion_body(request_of(Operation.COMPLETION, suffix="end"), "there", Terms()))
    assert ("end", False) == (filled["suffix"], "raw" in filled)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": [1, 2]}, "prompt"),
        ({"logprobs": 1}, "logprobs"),
        ({"echo": True}, "echo"),
        ({"max_tokens": 0}, "max_tokens"),
    ],
)
def test_what_has_no_place_in_a_completion_is_named(fields: dict[str, Any], param: str) -> None:
    """Likewise; no tokens at all would be any number there."""
    with pytest.raises(UpstreamRefused) as caught:
        completion_body(request_of(Operation.COMPLETION, **fields), "there", Terms())
    assert param == caught.value.param


def test_embeddings_are_of_texts() -> None:
    """In whatever encoding they are wanted; tokens are another vocabulary's."""
    told = json.loads(embed_body(request_of(Operation.EMBEDDING, input=["a"], dimensions=8), "there", Terms()))
    assert {"model": "there", "input": ["a"], "truncate": False, "dimensions": 8} == told
    with pytest.raises(UpstreamRefused):
        embed_body(request_of(Operation.EMBEDDING, input=[1, 2]), "there", Terms())
