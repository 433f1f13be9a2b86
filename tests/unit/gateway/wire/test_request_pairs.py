"""From every client's format to every provider's: all words arrive, and no field is lost without a word."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gateway.errors import InvalidRequest, UpstreamRefused
from gateway.types import Operation
from policies.filter.capable import Capable
from tests.factories import _context
from tests.references.translation_table import Sent, _at, _call, providers

Fields = dict[str, Any]

CLIENTS = (Operation.CHAT, Operation.MESSAGES, Operation.RESPONSE, Operation.OLLAMA_CHAT)
PROVIDERS = (
    "`openai_compatible`",
    "`anthropic`",
    "`azure_openai`",
    "`bedrock`",
    "`gemini`",
    "`ollama`",
    "`embedded`",
    "`embedded`, thinking",
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(str.strip)
LEAF = st.booleans() | st.integers(-(2**40), 2**40) | TEXTS
VALUES = st.recursive(LEAF, lambda it: st.lists(it, max_size=2) | st.dictionaries(TEXTS, it, max_size=2), max_leaves=4)
NAMES = st.from_regex(r"zz_[a-z]{1,8}", fullmatch=True)
quickly = settings(max_examples=8, derandomize=True, suppress_health_check=[HealthCheck.too_slow], deadline=None)
pairs = pytest.mark.parametrize("client", CLIENTS, ids=str)
each_provider = pytest.mark.parametrize("provider", PROVIDERS)

known = cache(providers)


def test_every_provider_is_here() -> None:
    """Those of the table of translations."""
    assert set(PROVIDERS) == set(known())


@st.composite
def conversations(draw: st.DrawFn) -> list[tuple[str, str, Fields]]:
    """Turns of user and model, with a call and its result after some of the model's: who, words, a call's arguments."""
    turns: list[tuple[str, str, Fields]] = []
    for number in range(draw(st.integers(1, 3))):
        turns.append(("user", f"u{number} {draw(TEXTS)}", {}))
        if draw(st.booleans()):
            arguments = {"at": f"a{number} {draw(TEXTS)}"}
            turns.append(("call", f"c{number}", arguments))
            turns.append(("result", f"r{number} {draw(TEXTS)}", {}))
        turns.append(("assistant", f"m{number} {draw(TEXTS)}", {}))
    return [*turns, ("user", f"last {draw(TEXTS)}", {})]


def _chat(turns: list[tuple[str, str, Fields]], system: str) -> Fields:
    messages: list[Fields] = [{"role": "system", "content": system}]
    for kind, words, arguments in turns:
        if kind == "call":
            function = {"name": "look", "arguments": json.dumps(arguments)}
            calls = [{"id": words, "type": "function", "function": function}]
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        elif kind == "result":
            messages.append({"role": "tool", "tool_call_id": f"c{words[1]}", "content": words})
        else:
            messages.append({"role": kind, "content": words})
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    return {"model": "m", "messages": messages, "tools": [tool]}


def _messages(turns: list[tuple[str, str, Fields]], system: str) -> Fields:
    messages: list[Fields] = []
    for kind, words, arguments in turns:
        if kind == "call":
            block = {"type": "tool_use", "id": words, "name": "look", "input": arguments}
            messages.append({"role": "assistant", "content": [block]})
        elif kind == "result":
            block = {"type": "tool_result", "tool_use_id": f"c{words[1]}", "content": words}
            messages.append({"role": "user", "content": [block]})
        else:
            messages.append({"role": kind, "content": words})
    tool = {"name": "look", "input_schema": {"type": "object", "properties": {}}}
    return {"model": "m", "max_tokens": 4096, "system": system, "messages": messages, "tools": [tool]}


def _response(turns: list[tuple[str, str, Fields]], system: str) -> Fields:
    items: list[Fields] = []
    for kind, words, arguments in turns:
        if kind == "call":
            call = {"type": "function_call", "call_id": words, "name": "look", "arguments": json.dumps(arguments)}
            items.append(call)
        elif kind == "result":
            items.append({"type": "function_call_output", "call_id": f"c{words[1]}", "output": words})
        else:
            items.append({"role": kind, "content": words})
    tool = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
    return {"model": "m", "instructions": system, "input": items, "tools": [tool]}


def _ollama(turns: list[tuple[str, str, Fields]], system: str) -> Fields:
    messages: list[Fields] = [{"role": "system", "content": system}]
    for kind, words, arguments in turns:
        if kind == "call":
            calls = [{"function": {"name": "look", "arguments": arguments}}]
            messages.append({"role": "assistant", "content": "", "tool_calls": calls})
        elif kind == "result":
            messages.append({"role": "tool", "tool_name": "look", "content": words})
        else:
            messages.append({"role": kind, "content": words})
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    return {"model": "m", "messages": messages, "tools": [tool], "stream": False}


BODIES: Mapping[Operation, Callable[[list[tuple[str, str, Fields]], str], Fields]] = {
    Operation.CHAT: _chat,
    Operation.MESSAGES: _messages,
    Operation.RESPONSE: _response,
    Operation.OLLAMA_CHAT: _ollama,
}


def _texts(value: Any) -> Iterator[str]:
    """All texts of a body, in its order; what is JSON inside a text (a call's arguments) as what it says."""
    if isinstance(value, str):
        yield value
        if value.startswith("{"):
            yield from _texts(json.loads(value))
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(one)


def _sent(client: Operation, provider: str, body: Fields) -> Any:
    """What goes up, or ``None`` where it is refused: by the route's filter, or by the provider's own writer."""
    facts, sent = known()[provider]
    send: Sent = sent
    call = _call(client, body)
    if Capable().exclude(_context(call.request), _at(facts)) is not None:
        return None
    try:
        return send(call)
    except UpstreamRefused:
        return None


@each_provider
@pairs
@quickly
@given(turns=conversations(), system=TEXTS)
def test_all_words_arrive(client: Operation, provider: str, turns: list[tuple[str, str, Fields]], system: str) -> None:
    """Instructions, what users and models said, what was called with what and what came of it: each once, in order."""
    upstream = _sent(client, provider, BODIES[client](turns, f"s {system}"))
    said = list(_texts(upstream))
    wanted = [arguments["at"] if kind == "call" else words for kind, words, arguments in turns]
    places = [next(at for at, text in enumerate(said) if words in text) for words in wanted]
    assert sorted(places) == places
    assert 1 == sum(f"s {system}" in text for text in said)


@each_provider
@pairs
@quickly
@given(name=NAMES, value=VALUES.filter(lambda it: it not in ([], {})))
def test_a_field_that_nobody_knows_arrives_or_is_refused(
    client: Operation, provider: str, name: str, value: Any
) -> None:
    """It is never lost in silence, unless it holds nothing; to Ollama, nothing is zero and false, too."""
    assume(value or client is not Operation.OLLAMA_CHAT)
    body = {**BODIES[client]([("user", "hi", {})], "be brief"), name: value}
    try:
        upstream = _sent(client, provider, body)
    except InvalidRequest as refused:
        assert name == refused.param  # noqa: PT017  # one of two good ends
        return
    assert upstream is None or value == upstream.get(name)


ODD = st.none() | VALUES | st.sampled_from([[], {}, [{}], [[]], "", 0, -1, 1e300, [None], {"type": None}])
FIELDS: Mapping[Operation, tuple[str, ...]] = {
    Operation.CHAT: (
        *("tools", "tool_choice", "response_format", "stop", "n", "logprobs", "reasoning_effort", "thinking"),
        *("messages", "max_tokens", "temperature", "logit_bias", "functions", "audio", "modalities", "stream_options"),
    ),
    Operation.MESSAGES: (
        *("tools", "tool_choice", "thinking", "output_config", "system", "stop_sequences", "metadata", "messages"),
        *("max_tokens", "temperature", "top_k", "context_management", "mcp_servers", "container"),
    ),
    Operation.RESPONSE: (
        *("input", "instructions", "tools", "tool_choice", "text", "reasoning", "include", "truncation", "prompt"),
        *("max_output_tokens", "conversation", "previous_response_id", "background", "top_logprobs", "metadata"),
    ),
    # Without messages it asks for a model to be loaded, which is answered here.
    Operation.OLLAMA_CHAT: ("tools", "format", "options", "think", "keep_alive", "stream", "logprobs"),
}


@each_provider
@pairs
@settings(quickly, max_examples=20)
@given(data=st.data())
def test_no_request_breaks_the_way(client: Operation, provider: str, data: st.DataObject) -> None:
    """Fields of the wrong kind are read and translated, or refused in words; nothing else is raised."""
    odd = data.draw(st.dictionaries(st.sampled_from(FIELDS[client]), ODD, min_size=1, max_size=3))
    body = {**BODIES[client]([("user", "hi", {})], "be brief"), **odd}
    try:
        upstream = _sent(client, provider, body)
    except InvalidRequest as refused:
        assert refused.message  # noqa: PT017  # likewise
        return
    assert upstream is None or json.dumps(upstream)
