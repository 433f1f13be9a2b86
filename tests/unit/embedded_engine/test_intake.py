from collections.abc import Callable
from typing import Any

import pytest

from embedded_engine.engine import Engine
from embedded_engine.errors import ContextLengthExceeded, InvalidRequest
from embedded_engine.messages import ChatMessage, Generate


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        ({"messages": (ChatMessage(role="user", content="x" * 200),)}, "messages"),
        ({"messages": (ChatMessage(role="user", content="x" * 9999),)}, "messages"),
        ({"text": "x" * 200}, "prompt"),
        ({"text": "x" * 9999}, "prompt"),
        ({"token_ids": (1,) * 200}, "prompt"),
    ],
)
def test_a_prompt_that_is_too_long_is_called_by_the_name_it_was_given_under(
    make_engine: Callable[..., Engine], prompt: dict[str, Any], param: str
) -> None:
    """A conversation is `messages`, all else is `prompt`; whether it was read or refused unread."""
    with pytest.raises(ContextLengthExceeded) as caught:
        make_engine().prepare(Generate(**{"id": 1, **prompt}))
    assert param == caught.value.param


def test_the_assistants_last_message_is_gone_on_with(make_engine: Callable[..., Engine]) -> None:
    """The prompt is that of the conversation before it, and its words."""
    engine, asked = make_engine(), ChatMessage(role="user", content="why?")
    messages = (asked, ChatMessage(role="assistant", content="It is"))
    before = engine.prepare(Generate(id=1, messages=(asked,))).prompt
    prompt = engine.prepare(Generate(id=1, messages=messages, continues=True)).prompt
    assert before == prompt[: len(before)]
    assert 0 < len(prompt) - len(before) <= len("It is")


@pytest.mark.parametrize(
    "prompt",
    [
        {"text": "It is"},
        {"messages": (ChatMessage(role="user", content="why?"),)},
        {"messages": (ChatMessage(role="user", content="why?"), ChatMessage(role="assistant", content=""))},
    ],
)
def test_what_cannot_be_gone_on_with_is_refused_by_name(make_engine: Callable[..., Engine], prompt: Any) -> None:
    """Only words of the assistant at the end of a conversation."""
    with pytest.raises(InvalidRequest) as caught:
        make_engine().prepare(Generate(id=1, continues=True, **prompt))
    assert "continue_final_message" == caught.value.param
