"""Whatever comes, the ways between Anthropic's format and a chat break nothing, drop nothing, and lead back."""

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import InvalidRequest, UpstreamRefused
from gateway.types import Arrival, Call, Operation, TraceContext
from gateway.wire.anthropic_blocks import ERROR_MARK
from gateway.wire.chat_to_anthropic import Terms, anthropic_body
from gateway.wire.formats import FORMATS
from gateway.wire.hub import chat_request

TERMS = Terms(max_tokens=4096, thinking="budget")
TRACE = TraceContext(trace_id="0" * 32, span_id="0" * 16)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6).filter(
    lambda it: not it.startswith(ERROR_MARK)
)
TEXT = WORDS.map(lambda words: {"type": "text", "text": words})
IMAGE = st.just({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}})
LEAF = st.none() | st.booleans() | st.integers() | WORDS
JSON = st.recursive(LEAF, lambda it: st.lists(it, max_size=3) | st.dictionaries(WORDS, it, max_size=3), max_leaves=5)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Anthropic's messages as good clients send them: after each call its result, at the head of the next turn."""
    messages: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 3))):
        messages.append({"role": "user", "content": draw(st.lists(TEXT | IMAGE, min_size=1, max_size=3))})
        calls = [f"c{number}-{at}" for at in range(draw(st.integers(0, 2)))]
        inputs = st.dictionaries(WORDS, WORDS, max_size=2)
        used = [{"type": "tool_use", "id": it, "name": "f", "input": draw(inputs)} for it in calls]
        thoughts = [{"type": "thinking", "thinking": draw(WORDS), "signature": "s"}] if draw(st.booleans()) else []
        messages.append({"role": "assistant", "content": [*thoughts, draw(TEXT), *used]})
        results = [{"type": "tool_result", "tool_use_id": it, **draw(_outcomes())} for it in calls]
        messages.append({"role": "user", "content": [*results, draw(TEXT)]})
    return messages


def _outcomes() -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda words, failed: {**({"is_error": True} if failed else {}), "content": words}, WORDS, st.booleans()
    )


def body_of(operation: Operation, fields: dict[str, Any]) -> dict[str, Any]:
    """A client's body, read, brought into a chat's shape, and written for Anthropic."""
    arrival = Arrival(id="r", operation=operation, tenant="t", received_s=1.0, received_unix_s=2.0, trace=TRACE)
    request = FORMATS[operation].read(arrival, msgspec.json.encode({"model": "m", "max_tokens": 9, **fields}))
    body: dict[str, Any] = json.loads(
        anthropic_body(chat_request(Call(request=request, model="m", trace=TRACE)), "m", TERMS)
    )
    return body


def is_served(operation: Operation, fields: dict[str, Any]) -> bool:
    """Whether there is a body for it; the other outcome is a refusal, and anything else fails the test."""
    try:
        return bool(body_of(operation, fields))
    except (InvalidRequest, UpstreamRefused) as error:
        return not error.message


@settings(max_examples=60)
@given(conversations())
def test_a_conversation_survives_the_way_there_and_back(messages: list[dict[str, Any]]) -> None:
    """By way of a chat it is the same, and the second way changes nothing either."""
    again = body_of(Operation.MESSAGES, {"messages": messages})["messages"]
    assert messages == again
    assert again == body_of(Operation.MESSAGES, {"messages": again})["messages"]


ODD = (
    st.sampled_from([None, True, 0, 5, "x", "", [], [1], [{}], ["x"], {}, {"a": 1}, {"name": 1}, {"type": "x"}]) | JSON
)


def some(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Any of these fields, with values that are mostly not what they should be."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, ODD))


def typed(fields: st.SearchStrategy[dict[str, Any]], *kinds: str) -> st.SearchStrategy[dict[str, Any]]:
    """Blocks or parts of these kinds with such fields."""
    return st.builds(lambda kind, it: {**it, "type": kind}, st.sampled_from([*kinds, "odd"]), fields)


@settings(max_examples=100)
@given(some("tools", "system", "tool_choice", "thinking", "output_config", "context_management", "metadata", "z"))
def test_no_field_of_anthropics_breaks_the_way(fields: dict[str, Any]) -> None:
    """Whatever is in it, it is read and translated, or refused in words."""
    said = [{"role": "user", "content": "x"}]
    assert is_served(Operation.MESSAGES, {"messages": said, **fields}) in {True, False}


TOOLS = some("name", "type", "description", "input_schema", "strict", "input_examples", "defer_loading", "z")
BLOCKS = typed(
    some("text", "source", "id", "name", "input", "tool_use_id", "content", "is_error", "title", "data", "signature"),
    *("text", "image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking", "search_result"),
)


@settings(max_examples=150)
@given(st.lists(BLOCKS, max_size=3), st.sampled_from(["user", "assistant", "system"]), st.lists(TOOLS, max_size=2))
def test_no_block_of_anthropics_breaks_the_way(blocks: list[Any], role: str, tools: list[Any]) -> None:
    """Blocks and tools with the wrong fields, or with fields of the wrong kind."""
    said = [{"role": role, "content": blocks}, {"role": "user", "content": "x"}]
    assert is_served(Operation.MESSAGES, {"messages": said, "tools": tools}) in {True, False}


FUNCTIONS = st.builds(
    lambda it: {"type": "function", "function": {"name": "f", **it}}, some("parameters", "strict", "z")
)
TURNS = some("thinking_blocks", "cache_control", "function_call", "refusal", "audio", "reasoning_content", "z")
PARTS = typed(some("text", "image_url", "file", "refusal", "cache_control"), "text", "image_url", "file", "refusal")
ROLES = st.sampled_from(["assistant", "assistant", "user", "tool", "function", "system"])


@settings(max_examples=150)
@given(
    ROLES, TURNS, st.lists(PARTS, max_size=3), st.lists(FUNCTIONS, max_size=2), some("tool_choice", "thinking", "stop")
)
def test_no_chat_breaks_the_way(
    role: str, turn: Any, parts: list[Any], tools: list[Any], fields: dict[str, Any]
) -> None:
    """Extensions are other people's: none of them is what it should be."""
    said = [{"role": role, "content": parts, "tool_call_id": "c", **turn}]
    assert is_served(Operation.CHAT, {"messages": said, "tools": tools, **fields}) in {True, False}
