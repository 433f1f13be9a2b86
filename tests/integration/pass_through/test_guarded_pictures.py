"""Guards after pictures: what became of the prompt stands beside them, and may hold what the prompt did."""

from typing import Any

import msgspec
import openai
import pytest

from tests.integration.pass_through.conftest import PRICED, Provider, event
from tests.loopback import Conversation, Received

MODEL = "gpt-image-1.5"
SAID, CLEAN = "A letter to bob@example.com, in oil.", "A letter to [mail], in oil."
PICTURE = "iVBORw0KGgo="
GUARD = {
    "when": "after",
    "use": "pattern",
    "patterns": [r"[a-z0-9._-]{1,30}@[a-z0-9.-]{1,30}\.[a-z]{2,10}"],
    "replacement": "[mail]",
    "on_error": "refuse",
}
REDACT, BLOCK = {**GUARD, "action": "redact"}, {**GUARD, "action": "block"}
TOLD = {"created": 1, "data": [{"b64_json": PICTURE, "revised_prompt": SAID}, {"b64_json": PICTURE}]}
STREAMED = (
    event(type="image_generation.partial_image", partial_image_index=0, b64_json=PICTURE),
    event(type="image_generation.completed", b64_json=PICTURE, revised_prompt=SAID),
)


async def _draw(received: Received, conversation: Conversation) -> None:
    if b'"stream":true' in received.body.replace(b" ", b""):
        await conversation.stream(*STREAMED)
    else:
        await conversation.answer(msgspec.json.encode(TOLD))


@pytest.fixture
def guarded(open_front: Any, provider: Provider) -> Any:
    """Starts a gateway with a guard before the provider, who tells an address."""
    provider.instead = _draw

    async def start(guard: dict[str, Any]) -> Any:
        routes = {"all": {"models": list(PRICED), "targets": ["provider"], "guards": [guard]}}
        return await open_front({"routes": routes})

    return start


async def test_a_revised_prompt_is_looked_at(guarded: Any) -> None:
    """It goes out without what the guard takes out; the pictures are as they came."""
    front = await guarded(REDACT)
    drawn = await front.openai().images.generate(model=MODEL, prompt="a letter")
    assert [CLEAN, None] == [one.revised_prompt for one in drawn.data]
    assert [PICTURE] * 2 == [one.b64_json for one in drawn.data]
    edited = await front.openai().images.edit(model=MODEL, prompt="a letter", image=("a.png", b"\x89PNG", "image/png"))
    assert CLEAN == edited.data[0].revised_prompt
    assert {"pattern:redact"} == {row["guards"] for row in await front.rows()}


async def test_a_picture_with_a_prompt_that_is_not_allowed_does_not_pass(guarded: Any) -> None:
    """The client is told as of any answer."""
    front = await guarded(BLOCK)
    with pytest.raises(openai.BadRequestError) as refused:
        await front.openai().images.generate(model=MODEL, prompt="a letter")
    assert "content_filter" == refused.value.code


@pytest.mark.parametrize("stream", ["hold", "window"])
async def test_a_streamed_picture_is_looked_at_too(guarded: Any, stream: str) -> None:
    """Each event as it comes, or all at the end."""
    front = await guarded({**REDACT, "stream": stream})
    pieces = await front.openai().images.generate(model=MODEL, prompt="a letter", stream=True)
    told = [piece.model_dump() async for piece in pieces]
    assert ["image_generation.partial_image", "image_generation.completed"] == [one["type"] for one in told]
    assert CLEAN == told[1]["revised_prompt"]
    assert [PICTURE] * 2 == [one["b64_json"] for one in told]
