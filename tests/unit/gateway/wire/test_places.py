"""Where texts are found in bodies, and how one is replaced without touching anything else."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.types import Operation
from gateway.wire.json_edits import Path, with_values
from gateway.wire.places import answer_places, has_tokens, request_places

REQUESTS: list[tuple[Operation, dict[str, Any], list[tuple[str, str, str]]]] = [
    (
        Operation.CHAT,
        {
            "messages": [
                {"role": "system", "content": "s"},
                {
                    "role": "user",
                    "name": "n",
                    "content": [
                        {"type": "text", "text": "t"},
                        {"type": "image_url", "image_url": {"url": "https://u", "text": "never"}},
                        {"type": "file", "file": {"text": "never"}},
                    ],
                },
                {
                    "role": "assistant",
                    "content": None,
                    "refusal": "r",
                    "reasoning_content": "thought",
                    "tool_calls": [{"id": "i", "function": {"name": "f", "arguments": '{"a":1}'}}],
                },
                {"role": "tool", "tool_call_id": "i", "content": "o"},
            ],
            "prediction": {"type": "content", "content": "p"},
            "tools": [
                {
                    "function": {
                        "name": "never",
                        "description": "z",
                        "parameters": {"input": {"type": "never", "title": "i", "enum": ["e"], "default": {"d": "d"}}},
                    }
                }
            ],
            "documents": [{"any": "a"}],
            "chat_template_kwargs": {"any": ["k"]},
            "metadata": {"text": "never"},
        },
        [
            ("s", "text", "system"),
            ("n", "text", "user"),
            ("t", "text", "user"),
            ("r", "refusal", "assistant"),
            ("thought", "reasoning", "assistant"),
            ('{"a":1}', "arguments", "assistant"),
            ("o", "text", "tool"),
            ("p", "text", "user"),
            *[(it, "text", "system") for it in "ziedak"],
        ],
    ),
    (Operation.COMPLETION, {"prompt": ["a", "b"], "suffix": "c"}, [(it, "text", "user") for it in "abc"]),
    (Operation.EMBEDDING, {"input": "a"}, [("a", "text", "user")]),
    (
        Operation.MESSAGES,
        {
            "system": [{"type": "text", "text": "s"}],
            "messages": [
                {"role": "user", "content": "u"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "signed", "signature": "x"},
                        {"type": "tool_use", "id": "i", "name": "f", "input": {"q": "v"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "i", "content": [{"type": "text", "text": "o"}]},
                        {"type": "tool_result", "tool_use_id": "j", "content": "p"},
                        {"type": "image", "source": {"type": "base64", "data": "never"}},
                        {"type": "document", "title": "d", "source": {"type": "text", "data": "e"}},
                        {"type": "search_result", "source": "f", "title": "g", "content": []},
                    ],
                },
            ],
        },
        [
            ("s", "text", "system"),
            ("u", "text", "user"),
            ('{"q":"v"}', "arguments", "assistant"),
            ("o", "text", "user"),
            ("p", "text", "user"),
            ("d", "text", "user"),
            *[(it, "text", "user") for it in "efg"],
        ],
    ),
    (
        Operation.RESPONSE,
        {
            "instructions": "s",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "u"}]},
                {"type": "function_call", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "output": "o"},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "m"}], "encrypted_content": "x"},
            ],
        },
        [
            ("s", "text", "system"),
            ("u", "text", "user"),
            ("{}", "arguments", "user"),
            ("o", "text", "tool"),
            ("m", "text", "user"),
        ],
    ),
    (
        Operation.OLLAMA_CHAT,
        {"messages": [{"role": "user", "content": "u", "images": ["never"]}]},
        [("u", "text", "user")],
    ),
    (Operation.OLLAMA_GENERATE, {"prompt": "u", "system": "s"}, [("s", "text", "system"), ("u", "text", "user")]),
    (Operation.RERANK, {"query": "q", "documents": ["a", {"text": "b"}]}, [(it, "text", "user") for it in "qab"]),
    (Operation.MODERATION, {"input": [{"type": "text", "text": "a"}]}, [("a", "text", "user")]),
    (Operation.TRANSCRIPTION, {"prompt": "p"}, []),
]


@pytest.mark.parametrize(("operation", "body", "expected"), REQUESTS, ids=[str(it[0]) for it in REQUESTS])
def test_texts_of_requests(operation: Operation, body: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    """Of what kind, and in whose turn; of what is no text for people, nothing."""
    found = request_places(operation, body)
    assert expected == [(place.text, place.kind, place.role) for place in found]
    for place in found:
        value = _value_at(body, place.path)
        assert place.text == (msgspec.json.encode(value).decode() if place.is_json else value)


ANSWERS: list[tuple[Operation, dict[str, Any], list[tuple[str, str]]]] = [
    (
        Operation.CHAT,
        {
            "choices": [
                {
                    "message": {
                        "role": "assistant",
                        "content": "a",
                        "reasoning": "b",
                        "audio": {"transcript": "t", "data": "never"},
                    }
                },
                {"message": {"tool_calls": [{"function": {"arguments": "{}"}}]}, "logprobs": {"text": "never"}},
            ],
            "usage": {"text": "never"},
        },
        [("a", "text"), ("b", "reasoning"), ("t", "text"), ("{}", "arguments")],
    ),
    (Operation.COMPLETION, {"choices": [{"text": "a"}]}, [("a", "text")]),
    (
        Operation.MESSAGES,
        {"content": [{"type": "thinking", "thinking": "b"}, {"type": "tool_use", "input": {}}, {"text": "a"}]},
        [("b", "reasoning"), ("{}", "arguments"), ("a", "text")],
    ),
    (
        Operation.RESPONSE,
        {"instructions": "the client's own", "output": [{"content": [{"text": "a"}, {"refusal": "r"}]}]},
        [("a", "text"), ("r", "refusal")],
    ),
    (Operation.OLLAMA_CHAT, {"message": {"content": "a", "thinking": "b"}}, [("a", "text"), ("b", "reasoning")]),
    (Operation.OLLAMA_GENERATE, {"response": "a"}, [("a", "text")]),
    (Operation.EMBEDDING, {"data": [{"text": "never"}]}, []),
]


@pytest.mark.parametrize(("operation", "body", "expected"), ANSWERS, ids=[str(it[0]) for it in ANSWERS])
def test_texts_of_answers(operation: Operation, body: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """All that a client is shown."""
    assert expected == [(place.text, place.kind) for place in answer_places(operation, body)]


@pytest.mark.parametrize(
    ("operation", "body", "expected"),
    [
        (Operation.COMPLETION, {"prompt": [1, 2]}, True),
        (Operation.COMPLETION, {"prompt": [[1], [2]]}, True),
        (Operation.EMBEDDING, {"input": [1]}, True),
        (Operation.EMBEDDING, {"input": ["a"]}, False),
        (Operation.COMPLETION, {"prompt": "1"}, False),
        (Operation.CHAT, {"prompt": [1]}, False),
    ],
)
def test_tokens_are_seen_for_what_they_are(operation: Operation, body: dict[str, Any], expected: bool) -> None:
    """No text that anybody could look at."""
    assert expected == has_tokens(operation, body)


trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for name, inner in members for found in _paths(inner, (*path, name)))]


@given(tree=trees, data=st.data())
def test_a_value_is_replaced_and_nothing_else(tree: Any, data: st.DataObject) -> None:
    """As if it had been written so; several at a time, as long as none is in another."""
    path = data.draw(st.sampled_from(_paths(tree)))
    text = msgspec.json.encode(tree)
    changed = msgspec.json.decode(with_values(text, {path: b'"new"'}))
    assert "new" == _value_at(changed, path)
    assert msgspec.json.decode(with_values(text, {})) == msgspec.json.decode(text)
    for other in _paths(tree):
        shorter = min(len(other), len(path))
        if other[:shorter] != path[:shorter]:
            assert _value_at(msgspec.json.decode(text), other) == _value_at(changed, other)


def test_numbers_and_unknown_members_keep_their_digits() -> None:
    """What no float holds survives beside a text that is replaced."""
    body = b'{"a":[{"big":12345678901234567890123,"exact":1.10,"text":"x"}],"b":1e-7}'
    expected = b'{"a":[{"big":12345678901234567890123,"exact":1.10,"text":"y"}],"b":1e-7}'
    assert expected == with_values(body, {("a", 0, "text"): b'"y"'})


def _value_at(tree: Any, path: Path) -> Any:
    """What a parsed JSON value has at a path."""
    for step in path:
        tree = tree[step]
    return tree
