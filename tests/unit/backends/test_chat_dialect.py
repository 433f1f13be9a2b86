"""How servers' chats differ: translated requests are told in their words."""

import json
from typing import Any

import msgspec
import pytest

from backends._chat_dialect import ChatDialect
from backends._presets import preset_named
from gateway.types import Call, Operation
from gateway.wire.hub import chat_request

TURNS = [
    {"role": "user", "content": "q"},
    {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "a"}],
    },
    {"role": "user", "content": "r"},
]


def told(dialect: ChatDialect, call: Call) -> dict[str, Any]:
    """The fields as that server gets them."""
    raw = dialect.spoken(chat_request(call)).raw
    return {name: json.loads(msgspec.json.encode(value)) for name, value in raw.items()}


def test_a_budget_is_told_as_an_effort(make_call: Any) -> None:
    """A chat has no field for a number of thoughts."""
    thinking = {"type": "enabled", "budget_tokens": 2000}
    fields = told(ChatDialect(), make_call(Operation.MESSAGES, max_tokens=9, thinking=thinking))
    assert ("low", False) == (fields["reasoning_effort"], "thinking" in fields)


SIGNED = {"type": "thinking", "thinking": "hm", "signature": "s"}


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("none", {"content": "a"}),
        ("reasoning_content", {"content": "a", "reasoning_content": "hm", "thinking_blocks": [SIGNED]}),
        ("reasoning", {"content": "a", "reasoning": "hm"}),
        (
            "reasoning_details",
            {
                "content": "a",
                "reasoning_details": [
                    {
                        "type": "reasoning.text",
                        "text": "hm",
                        "signature": "s",
                        "format": "anthropic-claude-v1",
                        "index": 0,
                    }
                ],
            },
        ),
        (
            "parts",
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "signature": "s"},
                    {"type": "text", "text": "a"},
                ]
            },
        ),
    ],
)
def test_past_thoughts(make_call: Any, place: Any, expected: dict[str, Any]) -> None:
    """They come back to who takes them, where it wants them."""
    call = make_call(Operation.MESSAGES, max_tokens=9, messages=TURNS)
    assert {"role": "assistant", **expected} == told(ChatDialect(past_reasoning=place), call)["messages"][1]


def test_what_openai_calls_the_limit(make_call: Any) -> None:
    """Its newer models take no ``max_tokens``; thoughts it would refuse."""
    call = make_call(Operation.MESSAGES, max_tokens=9, messages=TURNS)
    fields = told(preset_named("openai").dialect, call)
    assert (9, False, False) == (
        fields["max_completion_tokens"],
        "max_tokens" in fields,
        "reasoning_content" in fields["messages"][1],
    )
