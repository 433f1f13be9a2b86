from collections.abc import Callable
from typing import Any

import pytest

from embedded_engine.engine import Engine
from embedded_engine.errors import ContextLengthExceeded
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
