"""A request of the hub as the engine takes it, or the reason why it cannot."""

import msgspec

from embedded_engine.messages import ChatMessage, Generate
from gateway.conversation import Message, Prompt
from gateway.errors import UpstreamRefused
from gateway.types import ChatRequest

CARRIES = frozenset(
    {
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "min_p",
        "model",
        "n",
        "prompt",
        "seed",
        "stop",
        "stream",
        "stream_options",
        "temperature",
        "top_k",
        "top_p",
        "user",
    }
)
"""The request fields that the engine understands."""

CAPABILITIES = frozenset({"many", "raw_prompt", "token_prompt"})
"""What it can do beyond a plain answer."""

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
"""Chat templates of open models know no developer: it is what OpenAI has called the system since 2024."""

_COMPLETION_TOKENS = 16
"""What OpenAI's completions endpoint takes where ``max_tokens`` is left out; a chat has no such bound."""

_SEED_BITS = 63


def generations(request: ChatRequest) -> tuple[Generate, ...]:
    """One engine request for each prompt: one for a chat, as many as there are prompts for completions.

    Raises:
        UpstreamRefused: a turn or a field has something that the engine cannot take, which ``param`` names.
    """
    sampling = request.sampling
    if request.max_tokens == 0:
        raise _refused("max_tokens must be at least 1 for this model", "max_tokens", code="invalid_value")
    completion = request.prompt is not None
    common = Generate(
        max_tokens=_COMPLETION_TOKENS if completion and request.max_tokens is None else request.max_tokens,
        temperature=1.0 if sampling.temperature is None else sampling.temperature,
        top_k=max(sampling.top_k or 0, 0),
        top_p=1.0 if sampling.top_p is None else sampling.top_p,
        min_p=sampling.min_p or 0.0,
        seed=None if sampling.seed is None else sampling.seed % 2**_SEED_BITS,
        stop=sampling.stop,
        n=request.n,
    )
    if request.prompt is None:
        messages = tuple(_message(number, message) for number, message in enumerate(request.messages))
        return (_with(common, messages=messages),)
    return tuple(
        _with(common, text=prompt) if isinstance(prompt, str) else _with(common, token_ids=prompt)
        for prompt in _prompts(request.prompt)
    )


def _with(
    common: Generate,
    *,
    messages: tuple[ChatMessage, ...] | None = None,
    text: str | None = None,
    token_ids: tuple[int, ...] | None = None,
) -> Generate:
    return msgspec.structs.replace(common, messages=messages, text=text, token_ids=token_ids)


def _prompts(prompt: Prompt) -> tuple[str | tuple[int, ...], ...]:
    if isinstance(prompt, str):
        return (prompt,)
    if all(isinstance(item, int) for item in prompt):
        return (prompt,)  # type: ignore[return-value]  # all of its items are token ids
    return prompt  # type: ignore[return-value]  # texts, or the tokens of several


def _message(number: int, message: Message) -> ChatMessage:
    where = f"messages[{number}]"
    role = _ROLES.get(message.role)
    if role is None:
        raise _refused(f"this model takes no turns of role {message.role!r}", f"{where}.role")
    if message.tool_calls:
        raise _refused("this model takes no tool calls", f"{where}.tool_calls")
    if isinstance(message.content, tuple):
        for at, part in enumerate(message.content):
            if part.type != "text":
                raise _refused(f"this model takes no parts of type {part.type!r}", f"{where}.content[{at}].type")
    return ChatMessage(role=role, content=message.text(), name=message.name)


def _refused(words: str, param: str, *, code: str = "unsupported_parameter") -> UpstreamRefused:
    return UpstreamRefused(words, http_status=400, param=param, upstream_code=code)
