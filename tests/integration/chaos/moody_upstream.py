"""An upstream that does to a gateway what upstreams do, by the dice."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

from tests.loopback import Conversation, Received, chunk, head

_WORDS = 6
_DRIP_S = 0.01
WHOLE = (
    b'{"object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant",'
    b'"content":"a few words"}}],"usage":{"prompt_tokens":20,"completion_tokens":6,"total_tokens":26}}'
)
_PIECE = b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"word "}%b}]}\n\n'
_LAST = (
    _PIECE % b',"finish_reason":"stop"',
    b'data: {"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":7}}\n\n',
    b"data: [DONE]\n\n",
)
MOODS = {
    "fine": 10,
    "hangs": 1,
    "resets": 2,
    "too many": 2,
    "out of order": 2,
    "half a head": 1,
    "cut": 2,
    "reset in the middle": 2,
    "stalls": 1,
    "drips comments": 1,
    "nonsense": 1,
}


def moody(seed: int) -> Callable[[Received, Conversation], Awaitable[None]]:
    """Answers that follow one another by the dice of this seed."""
    dice = random.Random(seed)  # noqa: S311  # a test's dice

    async def respond(request: Received, conversation: Conversation) -> None:
        (mood,) = dice.choices(list(MOODS), list(MOODS.values()))
        streamed = bool(request.json.get("stream"))
        if mood in _BEFORE:
            await _BEFORE[mood](conversation)
        elif not streamed:
            await (conversation.answer(WHOLE) if mood == "fine" else _half(conversation, stalls=mood == "stalls"))
        elif mood == "fine":
            await conversation.stream(*[_PIECE % b""] * _WORDS, *_LAST)
        else:
            await conversation.stream(*[_PIECE % b""] * dice.randrange(_WORDS), end=mood == "cut")
            await _go_on(mood, conversation)

    return respond


async def _half(conversation: Conversation, *, stalls: bool) -> None:
    headers = {"content-type": "application/json", "content-length": str(len(WHOLE))}
    await conversation.send(head(200, headers) + WHOLE[:40])
    await (conversation.until_closed() if stalls else _reset(conversation))


async def _go_on(mood: str, conversation: Conversation) -> None:
    if mood == "stalls":
        await conversation.until_closed()
    elif mood == "drips comments":
        closed = asyncio.create_task(conversation.until_closed())
        with suppress(ConnectionError):
            while not closed.done():
                await conversation.send(chunk(b": still there\n\n"))
                await asyncio.wait([closed], timeout=_DRIP_S)
        closed.cancel()
    else:
        await _reset(conversation)


async def _reset(conversation: Conversation) -> None:
    conversation.reset()
    await conversation.until_closed()


async def _hang(conversation: Conversation) -> None:
    await conversation.until_closed()


async def _half_a_head(conversation: Conversation) -> None:
    await conversation.send(b"HTTP/1.1 200 OK\r\ncontent-ty")
    await conversation.until_closed()


async def _too_many(conversation: Conversation) -> None:
    await conversation.answer(b'{"error":{"message":"slow down"}}', status=429, headers={"retry-after": "1"})


async def _out_of_order(conversation: Conversation) -> None:
    await conversation.answer(b'{"error":{"message":"sorry"}}', status=500)


async def _nonsense(conversation: Conversation) -> None:
    await conversation.answer(b"<html>welcome</html>", headers={"content-type": "text/html"})


_BEFORE: dict[str, Callable[[Conversation], Awaitable[None]]] = {
    "hangs": _hang,
    "resets": _reset,
    "half a head": _half_a_head,
    "too many": _too_many,
    "out of order": _out_of_order,
    "nonsense": _nonsense,
}
