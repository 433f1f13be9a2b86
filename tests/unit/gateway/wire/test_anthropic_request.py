"""Anthropic's bodies: what is read of them, what is refused with which words, and what they are in a chat's shape."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gateway.conversation import Translation
from gateway.errors import InvalidRequest
from gateway.types import Arrival, ChatRequest, Operation
from gateway.wire.anthropic_blocks import ERROR_MARK
from gateway.wire.formats import FORMATS

PNG = {"type": "base64", "media_type": "image/png", "data": "iVBOR"}
TOOL = {"name": "f", "description": "d", "input_schema": {"type": "object"}}
ASSISTANT = {
    "role": "assistant",
    "content": [
        {"type": "tool_use", "id": "A", "name": "f", "input": {"x": 1}},
        {"type": "tool_use", "id": "B", "name": "f", "input": {}},
    ],
}


@pytest.fixture
def read(arrival: Arrival) -> Callable[..., ChatRequest]:
    """Reads a body made of the given fields, and what it needs beside them."""

    def call(*turns: Any, **fields: Any) -> ChatRequest:
        messages = [{"role": "user", "content": "hi"}, *turns]
        body = {"model": "m", "max_tokens": 9, "messages": messages, **fields}
        return FORMATS[Operation.MESSAGES].read(arrival, msgspec.json.encode(body))

    return call


def translation_of(request: ChatRequest) -> Translation:
    """What it is in a chat's shape."""
    assert request.translation is not None
    return request.translation()


def fields_of(request: ChatRequest) -> dict[str, Any]:
    """The chat's fields, parsed; nothing may be lost."""
    translation = translation_of(request)
    assert () == translation.lost
    return {name: json.loads(bytes(value)) for name, value in translation.fields.items()}


def lost_of(request: ChatRequest) -> tuple[str, ...]:
    """What has no place in a chat."""
    return translation_of(request).lost


def user(*blocks: Any) -> dict[str, Any]:
    """A user's turn."""
    return {"role": "user", "content": list(blocks)}


def text(words: str, **fields: Any) -> dict[str, Any]:
    """A block of text."""
    return {"type": "text", "text": words, **fields}


def test_what_policies_see(read: Callable[..., ChatRequest]) -> None:
    """The hub's fields: turns with instructions first, bounds, sampling, needs, and the length of the prompt."""
    fields = {"system": "be brief", "stop_sequences": ["x"], "temperature": 0, "top_k": 4, "tools": [TOOL]}
    request = read(user(text("look"), {"type": "image", "source": PNG}), **fields, stream=True)
    assert ["system", "user", "user"] == [turn.role for turn in request.messages]
    assert (9, True, 0, 4, ("x",)) == (
        request.max_tokens,
        request.stream,
        request.sampling.temperature,
        request.sampling.top_k,
        request.sampling.stop,
    )
    assert {"tools", "vision"} == request.needs
    assert request.prompt_bytes == len("be brief" + "hi" + "look") + len(bytes(request.raw["tools"]))


@pytest.mark.parametrize(
    ("user_id", "session"),
    [
        ('{"device_id":"d","session_id":"s-1"}', "s-1"),
        ("user_0a_account_1b_session_0c0c0c0c-1111", "0c0c0c0c-1111"),
        ("alice", ""),
        ("{", ""),
    ],
)
def test_the_session_is_found(read: Callable[..., ChatRequest], user_id: str, session: str) -> None:
    """In what Claude Code writes into ``metadata.user_id``; an end user's name is no conversation."""
    request = read(metadata={"user_id": user_id})
    assert (session, user_id) == (request.arrival.session, request.unverified_user)


def inside(block: Any) -> dict[str, Any]:
    """The field of a body whose only turn is this block."""
    return {"messages": [user(block)]}


def document(*content: Any) -> dict[str, Any]:
    """A document of blocks."""
    return {"type": "document", "source": {"type": "content", "content": content}}


REFUSED = [
    ({"max_tokens": None}, "max_tokens"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"temperature": -1}, "temperature"),
    ({"messages": []}, "messages"),
    ({"messages": {}}, "messages"),
    ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
    ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages[0].content[0].type"),
    ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "messages[0].content[0].tool_use_id"),
    (inside({"type": "tool_result", "tool_use_id": "a", "content": 5}), "messages[0].content[0].content"),
    (inside({"type": "tool_result", "tool_use_id": "a", "content": [5]}), "messages[0].content[0].content[0]"),
    (inside({"type": "search_result", "content": [{"type": "text"}]}), "messages[0].content[0].content[0].text"),
    (inside(document({"type": "text", "text": 5})), "messages[0].content[0].source.content[0].text"),
    (inside(document({"type": "text"})), "messages[0].content[0].source.content[0].text"),
    ({"tools": "f"}, "tools"),
    ({"api_key": "x"}, "api_key"),
    ({"stream": 1}, "stream"),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED)
def test_what_is_wrong_is_named(read: Callable[..., ChatRequest], fields: dict[str, Any], param: str) -> None:
    """The path into the body, and no value of it."""
    with pytest.raises(InvalidRequest) as caught:
        read(**fields)
    assert param == caught.value.param


def test_results_come_straight_after_their_calls(read: Callable[..., ChatRequest]) -> None:
    """One tool turn for each, then the rest of the user's turn in its order; a failure and pictures survive."""
    picture = {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}
    first = {"type": "tool_result", "tool_use_id": "A", "content": "ok"}
    second = {"type": "tool_result", "tool_use_id": "B", "is_error": True, "content": [text("bad"), picture]}
    turn = user(text("before"), first, {"type": "image", "source": PNG}, second, text("after"))
    turns = fields_of(read(ASSISTANT, turn))["messages"][2:]
    assert [("tool", "A", "ok"), ("tool", "B", f"{ERROR_MARK}bad")] == [
        (it["role"], it["tool_call_id"], it["content"]) for it in turns[:2]
    ]
    assert ["image_url", "text", "image_url", "text"] == [part["type"] for part in turns[2]["content"]]
    assert ["before", "after"] == [part["text"] for part in turns[2]["content"] if part["type"] == "text"]
    assert "data:image/png;base64,iVBOR" == turns[2]["content"][2]["image_url"]["url"]


def test_an_assistants_turn_keeps_text_calls_and_thoughts(read: Callable[..., ChatRequest]) -> None:
    """Arguments byte for byte; signed thoughts as blocks, all of them as text too."""
    body = (
        b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"q"},{"role":"assistant","content":['
        b'{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"d"},'
        b'{"type":"text","text":"a"},{"type":"text","text":"b"},'
        b'{"type":"tool_use","id":"A","name":"f","input":{ "x" : 1.0 }}]},{"role":"user","content":"q"}]}'
    )
    request = FORMATS[Operation.MESSAGES].read(read().arrival, body)
    turn = fields_of(request)["messages"][1]
    assert ("ab", "hm", '{ "x" : 1.0 }') == (
        turn["content"],
        turn["reasoning_content"],
        turn["tool_calls"][0]["function"]["arguments"],
    )
    assert [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
    ] == turn["thinking_blocks"]


CHOICES = [
    ({"type": "auto"}, "auto", None),
    ({"type": "none"}, "none", None),
    ({"type": "any", "disable_parallel_tool_use": True}, "required", False),
    ({"type": "tool", "name": "f"}, {"type": "function", "function": {"name": "f"}}, None),
]


@pytest.mark.parametrize(("choice", "expected", "parallel"), CHOICES)
def test_how_tools_may_be_called(
    read: Callable[..., ChatRequest], choice: Any, expected: Any, parallel: bool | None
) -> None:
    """In OpenAI's words."""
    fields = fields_of(read(tools=[{**TOOL, "strict": True}], tool_choice=choice))
    function = {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
    assert [{"type": "function", "function": function}] == fields["tools"]
    assert (expected, parallel) == (fields["tool_choice"], fields.get("parallel_tool_calls"))


DOCUMENTS = [
    ({"type": "text", "media_type": "text/plain", "data": "words"}, [text("T\nC"), text("words")]),
    ({"type": "content", "content": [text("in"), text("side")]}, [text("T\nC"), text("in"), text("side")]),
    (
        {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
        [text("C"), {"type": "file", "file": {"filename": "T", "file_data": "data:application/pdf;base64,JVBE"}}],
    ),
]


@pytest.mark.parametrize(("source", "parts"), DOCUMENTS)
def test_documents(read: Callable[..., ChatRequest], source: Any, parts: list[Any]) -> None:
    """Text is text under its title; a PDF is OpenAI's file."""
    request = read(user({"type": "document", "source": source, "title": "T", "context": "C"}))
    assert parts == fields_of(request)["messages"][1]["content"]
    assert ("file" in request.needs) is (parts[-1]["type"] == "file")


LOST: list[tuple[dict[str, Any], str]] = [
    ({"container": "c"}, "container"),
    ({"mcp_servers": [{"url": "x"}]}, "mcp_servers"),
    ({"inference_geo": "eu"}, "inference_geo"),
    ({"speed": "fast"}, "speed"),
    ({"future_field": 1}, "future_field"),
    ({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}, "context_management"),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0]"),
    ({"tools": [{**TOOL, "input_examples": [{}]}]}, "tools[0].input_examples"),
    ({"output_config": {"task_budget": 1}}, "output_config.task_budget"),
    ({"thinking": {"type": "other"}}, "thinking"),
]
BLOCKS: list[tuple[dict[str, Any], str]] = [
    ({"type": "image", "source": {"type": "file", "file_id": "f"}}, "messages[1].content[0].source"),
    ({"type": "document", "source": {"type": "url", "url": "https://x"}}, "messages[1].content[0].source"),
    ({"type": "container_upload", "file_id": "f"}, "messages[1].content[0]"),
    (
        {"type": "document", "source": {"type": "text", "data": "x"}, "citations": {"enabled": True}},
        "messages[1].content[0].citations",
    ),
]


@pytest.mark.parametrize(("fields", "path"), LOST)
def test_fields_without_a_place_are_named(read: Callable[..., ChatRequest], fields: Any, path: str) -> None:
    """Never dropped: who cannot carry them has to say so."""
    assert (path,) == lost_of(read(**fields))


@pytest.mark.parametrize(("block", "path"), BLOCKS)
def test_content_without_a_place_is_named(read: Callable[..., ChatRequest], block: Any, path: str) -> None:
    """By its place in the conversation."""
    assert (path,) == lost_of(read(user(block)))


QUIET: list[dict[str, Any]] = [
    {"metadata": {"user_id": "u"}},
    {"service_tier": "auto"},
    {"cache_control": {"type": "ephemeral"}},
    {"system": [text("s", cache_control={"type": "ephemeral"})]},
    {"thinking": {"type": "adaptive"}},
    {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}},
    {"context_management": None},
    {"mcp_servers": []},
    {"container": None},
    {"speed": "standard"},
    {"tools": [{**TOOL, "defer_loading": False, "cache_control": {"type": "ephemeral"}}]},
]


@pytest.mark.parametrize("fields", QUIET)
def test_what_changes_no_answer_is_no_reason_to_refuse(read: Callable[..., ChatRequest], fields: Any) -> None:
    """Marks for the cache, books, and fields at the value that silence means."""
    assert () == lost_of(read(**fields))


def test_thinking(read: Callable[..., ChatRequest]) -> None:
    """A budget goes on as it is, with the effort that comes nearest; an effort alone is a wish."""
    for budget_tokens, effort in ((1024, "low"), (8000, "medium"), (20000, "high")):
        asked = {"type": "enabled", "budget_tokens": budget_tokens}
        translation = translation_of(read(thinking=asked, output_config={"effort": "max"}))
        assert (asked, effort) == (
            json.loads(bytes(translation.fields["thinking"])),
            json.loads(bytes(translation.fields["reasoning_effort"])),
        )
        assert frozenset() == translation.hints
    wished = translation_of(read(output_config={"effort": "max"}))
    assert (b'"xhigh"', {"reasoning_effort"}) == (bytes(wished.fields["reasoning_effort"]), wished.hints)


def test_a_begun_answer_is_to_be_gone_on_with(read: Callable[..., ChatRequest]) -> None:
    """As vLLM has it; who cannot refuses it by the place of the turn."""
    translation = translation_of(read({"role": "assistant", "content": "It"}))
    assert b"true" == bytes(translation.fields["continue_final_message"])
    assert "messages[1]" == translation.origins["continue_final_message"]


def test_zero_is_a_value(read: Callable[..., ChatRequest]) -> None:
    """What is set to zero arrives as zero, and what is null was never set."""
    fields = fields_of(read(temperature=0, top_p=0, top_k=0, stop_sequences=[], stream=None))
    assert (0, 0, 0) == (fields["temperature"], fields["top_p"], fields["top_k"])
    assert not {"stop", "stream"} & fields.keys()
