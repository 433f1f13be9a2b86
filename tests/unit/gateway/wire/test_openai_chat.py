"""What a chat's body becomes, and which bodies become nothing."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsBase

from gateway.conversation import FunctionCall, Message, Part, Sampling, ToolCall
from gateway.types import Arrival, ChatRequest, Operation
from gateway.wire import openai_chat
from gateway.wire.formats import FORMATS

CHAT = FORMATS[Operation.CHAT]
Read = Callable[..., ChatRequest]
TOOL = {"type": "function", "function": {"name": "f", "description": "é", "parameters": {"type": "object"}}}
USER = {"role": "user", "content": "hi"}


def test_a_bare_chat_has_everything_else_unset(read_chat: Read, arrival: Arrival) -> None:
    """Nothing is filled in that the client did not say."""
    request = read_chat()
    assert (arrival, "m", (Message(role="user", content="hi"),)) == (request.arrival, request.model, request.messages)
    assert (False, False, 1, None, Sampling()) == (
        request.stream,
        request.include_usage,
        request.n,
        request.max_tokens,
        request.sampling,
    )
    assert (frozenset(), 2, "", None) == (
        request.needs,
        request.prompt_bytes,
        request.unverified_user,
        request.prompt,
    )


def test_zero_is_not_unset(read_chat: Read) -> None:
    """Each explicit zero arrives in the hub and at the upstream."""
    fields = {
        "temperature": 0,
        "top_p": 0,
        "top_k": 0,
        "min_p": 0,
        "seed": 0,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "stop": [],
        "tool_choice": "none",
        "top_logprobs": 0,
        "logit_bias": {},
    }
    request = read_chat(**fields)
    assert Sampling(temperature=0.0, top_p=0.0, top_k=0, min_p=0.0, seed=0, stop=()) == request.sampling
    assert frozenset() == request.needs
    sent = json.loads(CHAT.upstream_body(request, "other"))
    assert fields == {name: value for name, value in sent.items() if name in fields}


@pytest.mark.parametrize("name", sorted(CompletionCreateParamsBase.__annotations__))
def test_every_documented_field_reaches_the_upstream(name: str, read_chat: Read) -> None:
    """With the value that the client gave it, ``model`` excepted."""
    value: Any = {
        "messages": [{**USER, "extra": {"kept": 1.50}}],
        "model": "m",
        "audio": {"voice": "v", "format": "wav"},
        "frequency_penalty": 0.25,
        "function_call": {"name": "f"},
        "functions": [{"name": "f", "parameters": {}}],
        "logit_bias": {"50256": -100},
        "logprobs": True,
        "max_completion_tokens": 17,
        "max_tokens": 18,
        "modalities": ["text", "audio"],
        "n": 3,
        "parallel_tool_calls": False,
        "presence_penalty": -0.25,
        "prompt_cache_key": "k",
        "prompt_cache_retention": "24h",
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "strict": True, "schema": {}}},
        "safety_identifier": "s",
        "seed": 19,
        "service_tier": "flex",
        "stop": ["a", "b"],
        "store": True,
        "stream": True,
        "stream_options": {"include_usage": True, "include_obfuscation": False},
        "temperature": 0.125,
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "tools": [
            {**TOOL, "function": {**TOOL["function"], "strict": True}},
            {"type": "custom", "custom": {"name": "p"}},
        ],
        "top_logprobs": 4,
        "top_p": 0.5,
        "user": "u",
        "verbosity": "low",
    }.get(name, {"marked": name})
    fields = {name: value, "stream": True} if name == "stream_options" else {name: value}
    sent = json.loads(CHAT.upstream_body(read_chat(**fields), "m"))
    assert value == sent[name]


def test_unknown_fields_reach_the_upstream_byte_for_byte(arrival: Arrival) -> None:
    """Those of the future, and those of one upstream alone."""
    body = b'{"model":"m","messages":[{"role":"user","content":"\\u00e9"}],"guided":{"x": [1.50, 2e0]},"zzz":"\\/"}'
    expected = body.replace(b'"model":"m"', b'"model":"other"')
    assert expected == CHAT.upstream_body(CHAT.read(arrival, body), "other")


def test_stream_options_that_ask_for_usage_stay_byte_for_byte(arrival: Arrival) -> None:
    """There is nothing to add."""
    options = b'"stream":true,"stream_options":{"include_usage" : true}'
    body = b'{"model":"m","messages":[{"role":"user","content":""}],%b}' % options
    assert body == CHAT.upstream_body(CHAT.read(arrival, body), "m")


# ---- conversations --------------------------------------------------------------------------------------------------

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize("calls", [{}, {"tool_calls": [CALL]}, {"tool_calls": None}])
@pytest.mark.parametrize("content", [{}, {"content": None}, {"content": ""}, {"content": []}])
def test_an_assistant_turn_may_have_no_content(content: Any, calls: Any, read_chat: Read) -> None:
    """With and without tool calls; no turn is dropped and the call arrives."""
    turn = {"role": "assistant", **content, **calls}
    messages = [USER, turn, {"role": "tool", "tool_call_id": "c1", "content": "42"}, USER]
    request = read_chat(messages=messages)
    assert ["user", "assistant", "tool", "user"] == [message.role for message in request.messages]
    assert "" == request.messages[1].text()
    if calls.get("tool_calls"):
        call = ToolCall(id="c1", type="function", function=FunctionCall(name="f", arguments="{}"))
        assert (call,) == request.messages[1].tool_calls
    assert messages == json.loads(CHAT.upstream_body(request, "m"))["messages"]


def test_parts_are_kept_with_what_they_hold(read_chat: Read) -> None:
    """Text is text, the rest is opaque."""
    image = {"url": "data:image/png;base64,AA"}
    parts = [{"type": "text", "text": "é"}, {"type": "image_url", "image_url": image}, {"type": "future", "x": 1}]
    request = read_chat(messages=[{"role": "user", "content": parts}])
    expected = (Part(type="text", text="é"), Part(type="image_url", image_url=image), Part(type="future"))
    assert expected == request.messages[0].content
    assert 2 == request.prompt_bytes


def test_all_text_of_the_prompt_is_measured(read_chat: Read) -> None:
    """Turns, calls made in them, and definitions as they were written."""
    definitions = {"tools": [TOOL], "response_format": {"type": "json_schema", "json_schema": {"name": "é"}}}
    request = read_chat(messages=[{"role": "user", "content": "日本"}, {**USER, "tool_calls": [CALL]}], **definitions)
    written = sum(len(msgspec.json.encode(value)) for value in definitions.values())
    assert 6 + 2 + len("f{}") + written == request.prompt_bytes


@pytest.mark.parametrize(
    ("fields", "needs"),
    [
        ({"tools": [TOOL]}, {"tools"}),
        ({"tools": []}, set()),
        ({"functions": [{"name": "f"}]}, {"tools"}),
        ({"response_format": {"type": "json_object"}}, {"json_mode"}),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, {"json_schema"}),
        ({"response_format": {"type": "text"}}, set()),
        ({"logprobs": True}, {"logprobs"}),
        ({"logprobs": False}, set()),
        ({"presence_penalty": 0.5}, {"penalties"}),
        ({"frequency_penalty": -1}, {"penalties"}),
        ({"repetition_penalty": 1.1}, {"penalties"}),
        ({"repetition_penalty": 1}, set()),
        ({"logit_bias": {"1": 1}}, {"logit_bias"}),
        ({"n": 2}, {"many"}),
        ({"n": 1}, set()),
        ({"modalities": ["text"]}, set()),
        ({"modalities": ["audio"]}, {"audio"}),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, {"vision"}),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}, {"audio"}),
        ({"messages": [{"role": "user", "content": [{"type": "file", "file": {}}]}]}, {"file"}),
    ],
)
def test_a_request_says_what_it_needs(fields: dict[str, Any], needs: set[str], read_chat: Read) -> None:
    """So that it only goes where it can be served."""
    assert needs == read_chat(**fields).needs


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 6}, 6),
        ({"max_tokens": 5, "max_completion_tokens": 6}, 6),
        ({"max_tokens": None}, None),
    ],
)
def test_the_newer_limit_wins(fields: dict[str, Any], limit: int | None, read_chat: Read) -> None:
    """Both go on to the upstream as they are."""
    assert limit == read_chat(**fields).max_tokens


@pytest.mark.parametrize(("stop", "stops"), [("a", ("a",)), (["a", "b"], ("a", "b")), (None, ()), ("", ("",))])
def test_a_stop_is_a_string_or_several(stop: Any, stops: tuple[str, ...], read_chat: Read) -> None:
    """None is none."""
    assert stops == read_chat(stop=stop).sampling.stop


def test_the_clients_user_is_a_label(read_chat: Read) -> None:
    """It says nothing about who asks."""
    request = read_chat(user="someone else")
    assert ("someone else", "team") == (request.unverified_user, request.arrival.tenant)


def test_a_body_is_read_once_by_schema_and_once_by_field(arrival: Arrival, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hot path's promise, counted."""
    calls: list[str] = []

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(openai_chat, "skim_typed", counted("skim", openai_chat.skim_typed))
    monkeypatch.setattr(openai_chat, "decode", counted("decode", openai_chat.decode))
    request = CHAT.read(arrival, msgspec.json.encode({"model": "m", "messages": [USER], "tools": [TOOL]}))
    CHAT.upstream_body(request, "other")
    assert ["skim", "decode"] == calls


# ---- what clients send ----------------------------------------------------------------------------------------------

CLIENTS: dict[str, dict[str, Any]] = {
    "openai, and its agents": {"messages": [USER], "model": "m"},
    "pydantic-ai": {"messages": [USER], "model": "m", "stream": False},
    "langchain": {"messages": [{"content": "hi", "role": "user"}], "model": "m", "stream": True},
    "llama-index": {"messages": [USER], "model": "m", "stream": True, "temperature": 0.1},
    "instructor": {
        "messages": [USER],
        "model": "m",
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "tools": [TOOL],
    },
    "ai-sdk": {"model": "m", "messages": [USER], "stream": True, "stream_options": {"include_usage": True}},
    "a coding agent": {
        "model": "m",
        "max_tokens": 32000,
        "messages": [{"role": "system", "content": "s"}, USER],
        "tools": [TOOL] * 11,
        "tool_choice": "auto",
        "stream": True,
        "stream_options": {"include_usage": True},
    },
    "parts": {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
}


@pytest.mark.parametrize("client", CLIENTS)
def test_the_shapes_that_clients_send_are_read(client: str, arrival: Arrival) -> None:
    """And reach the upstream as they came; a stream asks for usage in any case."""
    body = CLIENTS[client]
    sent = json.loads(CHAT.upstream_body(CHAT.read(arrival, msgspec.json.encode(body)), "m"))
    expected = {**body, "stream_options": {"include_usage": True}} if body.get("stream") else body
    assert expected == sent
