"""Whatever comes, the ways between Ollama's format and the others break nothing, drop nothing, and lead back."""

import json
from contextlib import suppress
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import InvalidRequest, UpstreamError, UpstreamRefused
from gateway.types import ChatRequest, Operation
from gateway.wire.chat_to_ollama import Terms, chat_body, completion_body, embed_body
from gateway.wire.formats import FORMATS
from gateway.wire.hub import as_chat
from gateway.wire.ollama_reader import ollama_reader
from gateway.wire.writers import WRITERS
from tests.unit.gateway.wire.ollama_calls import STREAMED, call_of, request_of

CHAT, GENERATE, EMBED = Operation.OLLAMA_CHAT, Operation.OLLAMA_GENERATE, Operation.OLLAMA_EMBED
WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
LEAF = st.none() | st.booleans() | st.integers() | WORDS
JSON = st.recursive(LEAF, lambda it: st.lists(it, max_size=3) | st.dictionaries(WORDS, it, max_size=3), max_leaves=5)
ODD = st.sampled_from([None, True, 0, 5, -1, "x", "", "json", "high", [], [1], [{}], ["x"], {}, {"a": 1}]) | JSON
PNG = "iVBORw0KGgo="


def as_ollama(request: ChatRequest) -> dict[str, Any]:
    """A request in the shape of one of OpenAI's, as the body that goes up to Ollama."""
    bodies = {Operation.COMPLETION: completion_body, Operation.EMBEDDING: embed_body}
    body = bodies.get(request.arrival.operation, chat_body)(request, "m", Terms())
    fields: dict[str, Any] = json.loads(body)
    return fields


def there_and_back(operation: Operation, **fields: Any) -> dict[str, Any]:
    """A body of Ollama's by way of the hub, as Ollama's again."""
    call, _ = as_chat(call_of(operation, **fields), object())  # type: ignore[arg-type]  # nobody pushes into it
    return as_ollama(call.request)


def is_served(operation: Operation, fields: dict[str, Any]) -> bool:
    """Whether there is a body for it; the other outcome is a refusal in words, and anything else fails the test."""
    try:
        return bool(there_and_back(operation, **fields))
    except (InvalidRequest, UpstreamRefused) as error:
        return not error.message


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Ollama's messages as good clients send them: after each call its result."""
    messages: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 3))):
        pictures = {"images": [PNG]} if draw(st.booleans()) else {}
        messages.append({"role": "user", "content": draw(WORDS), **pictures})
        names = [f"f{number}-{at}" for at in range(draw(st.integers(0, 2)))]
        arguments = st.dictionaries(WORDS, LEAF, max_size=2)
        calls = [{"id": f"c-{name}", "function": {"name": name, "arguments": draw(arguments)}} for name in names]
        thoughts = {"thinking": draw(WORDS)} if draw(st.booleans()) else {}
        messages.append({"role": "assistant", "content": draw(WORDS), **thoughts})
        if calls:
            messages[-1]["tool_calls"] = calls
        messages += [
            {"role": "tool", "content": draw(WORDS), "tool_name": name, "tool_call_id": f"c-{name}"} for name in names
        ]
    return [*messages, {"role": "user", "content": draw(WORDS)}]


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "num_predict": st.integers(1, 99),
        "temperature": st.floats(0, 2),
        "top_k": st.integers(1, 99),
        "top_p": st.floats(0, 1),
        "min_p": st.floats(0, 1),
        "seed": st.integers(0, 2**31),
        "stop": st.lists(WORDS, min_size=1, max_size=2),
        "presence_penalty": st.floats(-2, 2).filter(bool),
        "frequency_penalty": st.floats(-2, 2).filter(bool),
        "repeat_penalty": st.floats(1.1, 2),
    },
)
REST = st.fixed_dictionaries(
    {},
    optional={
        "think": st.sampled_from([False, "low", "medium", "high", "max"]),
        "format": st.just("json") | st.dictionaries(WORDS, JSON, min_size=1, max_size=2),
        "stream": st.booleans(),
    },
)


@settings(max_examples=40)
@given(conversations(), OPTIONS, REST)
def test_a_chat_survives_the_way_there_and_back(messages: Any, options: Any, rest: dict[str, Any]) -> None:
    """Nothing of it is lost, and the second way changes nothing either."""
    again = there_and_back(CHAT, messages=messages, options=options, **rest)
    assert messages == again["messages"]
    assert options == again.get("options", {})
    told = {"stream": True, **rest}
    assert told == {name: again[name] for name in told}
    assert again == there_and_back(CHAT, **{name: value for name, value in again.items() if name != "model"})


@settings(max_examples=25)
@given(WORDS, OPTIONS, st.sampled_from([{"raw": True}, {"suffix": "x"}]))
def test_a_raw_generation_survives_it_too(prompt: str, options: Any, mode: dict[str, Any]) -> None:
    """By way of a completion."""
    again = there_and_back(GENERATE, prompt=prompt, options=options, **mode)
    assert (prompt, options, mode) == (again["prompt"], again.get("options", {}), {it: again[it] for it in mode})


def some(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Any of these fields, with values that are mostly not what they should be."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, ODD))


TURNS = some("content", "images", "thinking", "thinking_blocks", "tool_calls", "tool_name", "tool_call_id", "z")
FIELDS = some(
    "tools", "format", "options", "think", "logprobs", "top_logprobs", "keep_alive", "truncate", "stream", "z"
)


@settings(max_examples=60)
@given(st.lists(TURNS, max_size=3), st.sampled_from(["user", "assistant", "tool", "system", "x"]), FIELDS)
def test_no_chat_breaks_the_way(turns: list[Any], role: str, fields: dict[str, Any]) -> None:
    """Whatever is in it, it is read and translated, or refused in words."""
    messages = [{"role": role, **turn} for turn in turns]
    assert is_served(CHAT, {"messages": messages, **fields}) in {True, False}


@settings(max_examples=40)
@given(some("prompt", "suffix", "system", "template", "context", "raw", "images", "think", "format", "options", "z"))
def test_no_generation_breaks_the_way(fields: dict[str, Any]) -> None:
    """Likewise."""
    assert is_served(GENERATE, fields) in {True, False}


@settings(max_examples=25)
@given(some("input", "dimensions", "options", "truncate", "keep_alive", "z"))
def test_no_embedding_breaks_the_way(fields: dict[str, Any]) -> None:
    """Likewise."""
    assert is_served(EMBED, fields) in {True, False}


PARTS = st.lists(
    st.sampled_from(["text", "image_url", "input_audio", "file", "x"]).flatmap(
        lambda kind: some("text", "image_url", "input_audio", "file").map(lambda it: {**it, "type": kind})
    ),
    max_size=2,
)
CHATS = some(
    "tool_choice", "thinking", "reasoning_effort", "response_format", "stop", "functions", "function_call", "z"
)


@settings(max_examples=60)
@given(PARTS, some("tool_calls", "function_call", "refusal", "reasoning_content", "audio", "name"), CHATS)
def test_no_chat_of_openais_breaks_the_way(parts: list[Any], turn: dict[str, Any], fields: dict[str, Any]) -> None:
    """To a server of Ollama's."""
    for role in ("user", "assistant", "tool"):
        message = {"role": role, "content": parts, "tool_call_id": "c", **turn}
        with suppress(InvalidRequest, UpstreamRefused):
            assert as_ollama(request_of(Operation.CHAT, messages=[message], **fields))


LINES = st.lists(
    some("message", "response", "thinking", "tool_calls", "done", "done_reason", "error", "eval_count", "model")
)


@settings(max_examples=60)
@given(LINES, st.booleans(), st.sampled_from([CHAT, GENERATE]))
def test_no_answer_of_ollamas_breaks_a_client(lines: list[Any], streamed: bool, operation: Operation) -> None:
    """What can be read can be written for any client, and what its view then sees is whole; else there is an error."""
    sent = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    reader, client = ollama_reader(streamed), request_of(operation, stream=streamed)
    with suppress(UpstreamError):
        deltas = [*reader.feed(sent), *reader.end()]
        if reader.error is None:
            body = WRITERS[operation](client, streamed).write(deltas)
            assert body == _seen(client, body)


def _seen(client: ChatRequest, body: bytes) -> bytes:
    """What the client's view makes of it."""
    wire = FORMATS[client.arrival.operation]
    if not client.stream:
        return wire.whole(client).take(body)
    look = wire.stream(client)
    return look.feed(body) + look.end()


@settings(max_examples=40)
@given(st.binary(max_size=40))
def test_no_bytes_break_a_look(sent: bytes) -> None:
    """Nor a reader."""
    for operation in (CHAT, GENERATE, EMBED):
        for take in (FORMATS[operation].whole(request_of(operation)).take, _through_reader, _through_stream):
            with suppress(UpstreamError):
                take(sent)


def _through_reader(sent: bytes) -> None:
    reader = ollama_reader(STREAMED)
    reader.feed(sent)
    reader.end()


def _through_stream(sent: bytes) -> None:
    look = FORMATS[CHAT].stream(request_of(CHAT))
    look.feed(sent)
    look.end()
