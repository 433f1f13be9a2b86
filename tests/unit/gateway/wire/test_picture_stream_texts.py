"""Texts beside pictures, in streams of their own and among a response's items."""

from typing import Any

import msgspec
import pytest

from gateway.types import ChatRequest, Operation
from gateway.wire.guarded_formats import STREAM_TEXTS
from gateway.wire.sse import SseEvent

ITEM = {"type": "image_generation_call", "id": "i", "result": "aGk=", "revised_prompt": "a cat"}


@pytest.mark.parametrize(
    ("operation", "told", "path", "ends_all"),
    [
        (Operation.IMAGE, {"type": "image_generation.partial_image", "b64_json": "aGk="}, None, False),
        (
            Operation.IMAGE_EDIT,
            {"type": "image_edit.completed", "b64_json": "aGk=", "revised_prompt": "a cat"},
            ("revised_prompt",),
            True,
        ),
        (
            Operation.RESPONSE,
            {"type": "response.output_item.done", "output_index": 0, "item": ITEM},
            ("item", "revised_prompt"),
            False,
        ),
    ],
)
def test_what_became_of_the_prompt_stands_alone(
    make_request: Any, operation: Operation, told: dict[str, Any], path: Any, ends_all: bool
) -> None:
    """The picture itself is no text."""
    request: ChatRequest = make_request("hi")
    passing = STREAM_TEXTS[operation](request).passing(SseEvent(told["type"].encode(), msgspec.json.encode(told)))
    expected = [] if path is None else [(path, "a cat", None)]
    assert expected == [(growth.path, growth.old, growth.channel) for growth in passing.growths]
    assert ends_all == passing.ends_all
