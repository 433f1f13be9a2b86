import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import InvalidRequest, Unsupported
from gateway.types import Arrival, ChatRequest, Operation
from gateway.wire.format import BodyLimits
from gateway.wire.responses_items import closed_thoughts, opened_thoughts
from gateway.wire.responses_request import read_response_request

Read = Callable[..., ChatRequest]


@pytest.fixture(scope="session")
def read(make_request: Callable[..., ChatRequest]) -> Read:
    """Reads a body of Responses, ``model`` and ``input`` filled in where it has none."""
    arrival: Arrival = make_request(operation=Operation.RESPONSE).arrival

    def reads(limits: BodyLimits | None = None, **body: Any) -> ChatRequest:
        return read_response_request(
            arrival, json.dumps({"model": "m", "input": "hi", **body}).encode(), limits or BodyLimits()
        )

    return reads


def chat(request: ChatRequest) -> dict[str, Any]:
    """The chat-shaped body of a request."""
    assert request.translation is not None
    return {name: json.loads(bytes(value)) for name, value in request.translation().fields.items()}


def lost(request: ChatRequest) -> tuple[str, ...]:
    """What no chat can carry."""
    assert request.translation is not None
    return request.translation().lost


def test_a_text_is_the_users_turn(read: Read) -> None:
    """The shortest request there is."""
    request = read(instructions="be brief")
    assert [("system", "be brief"), ("user", "hi")] == [(turn.role, turn.text()) for turn in request.messages]
    assert {
        "model": "m",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
    } == (chat(request))


def test_what_an_assistant_thinks_says_and_calls_is_one_turn(read: Read) -> None:
    """Items stand alone in Responses; a chat has them in the turn that they belong to."""
    request = read(
        input=[
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "a map?"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "call_id": "c1", "name": "map", "arguments": "{}"},
            {"type": "function_call", "call_id": "c2", "name": "sky", "arguments": '{"at":1}'},
            {"type": "function_call_output", "call_id": "c2", "output": "blue"},
            {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "here"}]},
            {"role": "user", "content": "go on"},
        ]
    )
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "map", "arguments": "{}"}},
        {"id": "c2", "type": "function", "function": {"name": "sky", "arguments": '{"at":1}'}},
    ]
    said = [{"type": "text", "text": "I look."}]
    assert [
        {"role": "assistant", "content": said, "reasoning_content": "a map?", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c2", "content": "blue"},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "here"}]},
        {"role": "user", "content": "go on"},
    ] == chat(request)["messages"]


def test_fields_go_on_under_the_names_of_a_chat(read: Read) -> None:
    """What both formats know is carried, what is ours stays, and nothing is lost."""
    schema = {"type": "json_schema", "name": "x", "schema": {"type": "object"}, "strict": True}
    request = read(
        stream=True,
        temperature=0.5,
        max_output_tokens=7,
        tools=[{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}],
        tool_choice={"type": "function", "name": "f"},
        text={"format": schema, "verbosity": "low"},
        reasoning={"effort": "low", "summary": "auto"},
        include=["reasoning.encrypted_content", "message.output_text.logprobs"],
        store=False,
        metadata={"a": "b"},
        client_metadata={"turn": "1"},
        truncation="disabled",
        context_management=[],
    )
    body = chat(request)
    del body["messages"]
    assert {
        "model": "m",
        "stream": True,
        "temperature": 0.5,
        "max_tokens": 7,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": True}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "x", "schema": {"type": "object"}, "strict": True},
        },
        "verbosity": "low",
        "reasoning_effort": "low",
        "logprobs": True,
    } == body
    assert () == lost(request)
    assert {"tools", "json_schema", "logprobs"} == request.needs


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "https://x"}]}]},
            "input[0].content[0]",
        ),
        ({"input": [{"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}]}, "input[0].encrypted_content"),
        ({"tool_choice": {"type": "file_search"}}, "tool_choice"),
        ({"truncation": "auto"}, "truncation"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"previous_response_id": "resp_elsewhere"}, "previous_response_id"),
        ({"reasoning": {"mode": "deep"}}, "reasoning.mode"),
        ({"text": {"shape": 1}}, "text.shape"),
        ({"of_tomorrow": 1}, "of_tomorrow"),
    ],
)
def test_what_has_no_place_in_a_chat_is_named(read: Read, field: dict[str, Any], path: str) -> None:
    """Nothing is dropped in silence: whoever cannot carry it says what it was."""
    assert (path,) == lost(read(**field))


def test_tools_of_a_provider_are_offers(read: Read) -> None:
    """The model cannot call them, and the client is told; what it runs itself goes on."""
    inner = [{"type": "function", "name": "close", "parameters": {}}, {"type": "code_interpreter"}]
    request = read(tools=[{"type": "web_search"}, {"type": "namespace", "name": "agents", "tools": inner}])
    assert request.translation is not None
    translation = request.translation()
    assert (("tools[0]", "tools[1].tools[1]"), ()) == (translation.offers, translation.lost)
    assert [{"type": "function", "function": {"name": "agents__close", "parameters": {}}}] == chat(request)["tools"]


def test_a_call_in_a_namespace_has_its_name_in_a_chat(read: Read) -> None:
    """The same that the tool has there."""
    call = {"type": "function_call", "call_id": "c", "name": "close", "namespace": "agents", "arguments": "{}"}
    (turn,) = chat(read(input=[call]))["messages"]
    assert "agents__close" == turn["tool_calls"][0]["function"]["name"]


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ({"input": []}, "input"),
        ({"input": None}, "input"),
        ({"input": [{"content": "x"}]}, "input[0].type"),
        ({"input": [{"role": "wizard", "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": 5}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": ["x"]}]}, "input[0].content[0]"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
        ({"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]}, "input[0].call_id"),
        ({"input": [{"type": "function_call", "call_id": "c", "arguments": "{}"}]}, "input[0].name"),
        ({"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": {}}]}, "input[0].arguments"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
    ],
)
def test_a_mistake_is_named_by_its_path(read: Read, field: dict[str, Any], path: str) -> None:
    """The client learns where to look."""
    with pytest.raises(InvalidRequest) as caught:
        read(**field)
    assert path == caught.value.param


def test_background_is_refused_by_name(read: Read) -> None:
    """Nobody here would come back for it."""
    with pytest.raises(Unsupported) as caught:
        read(background=True)
    assert "background" == caught.value.param


def test_items_are_bounded(read: Read) -> None:
    """So many items, and no more."""
    with pytest.raises(InvalidRequest, match="at most 2 items"):
        read(BodyLimits(max_messages=2), input=[{"role": "user", "content": "x"}] * 3)


@given(st.lists(st.dictionaries(st.sampled_from(["type", "thinking", "signature", "data"]), st.text())))
def test_thoughts_come_back_as_they_went(blocks: list[dict[str, str]]) -> None:
    """What was made opaque here is read here, and nothing else is."""
    assert blocks == opened_thoughts(closed_thoughts(blocks))


@given(st.text())
def test_other_words_are_not_ours(word: str) -> None:
    """Another provider's thoughts stay its own, and a damaged word of ours is no thought."""
    assert opened_thoughts(word) is None
    assert opened_thoughts(f"headrace-1:{word}!") is None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_ITEMS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["message", "reasoning", "function_call", "function_call_output", "new"]),
        "role": st.sampled_from(["user", "assistant"]),
        **dict.fromkeys(("content", "call_id", "name", "arguments", "output", "summary", "encrypted_content"), _JSON),
    },
)


@given(items=st.lists(_ITEMS, max_size=4), more=st.dictionaries(st.sampled_from(["text", "tools", "include"]), _JSON))
def test_any_body_is_read_or_refused(read: Read, items: list[Any], more: dict[str, Any]) -> None:
    """Whatever stands in it: a request whose translation can be made, or an error that names the place."""
    try:
        request = read(input=items, **more)
    except InvalidRequest:
        return
    assert {"model", "messages"} <= chat(request).keys()
