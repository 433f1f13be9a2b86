"""Answers and requests for judges."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gateway.conversation import FunctionCall, ToolCall
from gateway.judgement import Answer, Choice
from gateway.price import Usage
from gateway.types import ChatRequest


@pytest.fixture(scope="session")
def says() -> Callable[..., Answer]:
    """An answer whose choices are these texts, or that makes these calls of name and arguments."""

    def make(*texts: str, calls: tuple[tuple[str, str], ...] = (), reason: str = "stop", refusal: str = "") -> Answer:
        made = tuple(ToolCall(id="c", function=FunctionCall(name=name, arguments=text)) for name, text in calls)
        return Answer(
            choices=tuple(
                Choice(text=text, tool_calls=made, finish_reason=reason, refusal=refusal) for text in texts or ("",)
            ),
            usage=Usage(prompt_tokens=7, output_tokens=20),
            model="small",
        )

    return make


@pytest.fixture(scope="session")
def asks(make_request: Callable[..., ChatRequest]) -> Callable[..., ChatRequest]:
    """A chat with these fields."""

    def make(**fields: Any) -> ChatRequest:
        return make_request(
            "How is the weather?", raw={k: msgspec.Raw(msgspec.json.encode(v)) for k, v in fields.items()}
        )

    return make
