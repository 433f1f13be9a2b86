"""How many tokens a prompt is, from what can be counted without its model's vocabulary."""

import math

from gateway.types import EMBEDDINGS, ChatRequest, Operation

_READ_ONLY = EMBEDDINGS | {Operation.COUNT_TOKENS}


def prompt_tokens(request: ChatRequest, *, bytes_per_token: float, message_tokens: int, image_tokens: int) -> int:
    """Text by its bytes, token numbers by their count, and what stands around messages and for images."""
    around = len(request.messages) * message_tokens
    for message in request.messages:
        if isinstance(message.content, tuple):
            around += image_tokens * sum(part.image_url is not None for part in message.content)
    counted = _counted(request.prompt) if request.prompt is not None else 0
    return around + (counted or math.ceil(request.prompt_bytes / bytes_per_token))


def choices(request: ChatRequest) -> int:
    """How many answers are written: ``n`` for each prompt."""
    prompts = 1
    if isinstance(request.prompt, tuple) and request.prompt and not isinstance(request.prompt[0], int):
        prompts = len(request.prompt)
    return max(request.n, 1) * prompts


def writes(request: ChatRequest) -> bool:
    """Whether there is an answer to write: embeddings are read only, a count is not even that, sound is no text."""
    return request.units is None and request.arrival.operation not in _READ_ONLY


def _counted(prompt: object) -> int:
    """The tokens of a prompt that comes as token numbers."""
    if not isinstance(prompt, tuple):
        return 0
    return sum(1 if isinstance(item, int) else _counted(item) for item in prompt)
