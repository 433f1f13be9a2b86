"""OpenAI's ``POST /v1/completions``."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gateway.conversation import Prompt, prompt_count
from gateway.errors import InvalidRequest
from gateway.types import Arrival, ChatRequest
from gateway.wire.format import BodyLimits
from gateway.wire.json_body import decode, skim
from gateway.wire.openai_fields import STREAM_OPTIONS_NEED_A_STREAM, SharedFields, text_bytes
from gateway.wire.transport_fields import NAMES_ALLOWED, refuse_transport_fields

_BYTES_PER_TOKEN = 4
_MAX_TOKEN = 2**31 - 1
_MOST_TOLD = 2048
"""Of prompts, in a document: a gateway may be set to take more."""


# What types and bounds alone cannot say, as JSON schemas say it; ``read_completion`` is what holds.
_BEST_OF_IS_WHOLE: Mapping[str, Any] = {
    "anyOf": [
        {"properties": {"stream": {"not": {"const": True}}}},
        {"properties": {"best_of": {"enum": [None, 1]}}},
    ]
}
_TOKENS: Mapping[str, Any] = {
    "type": "array",
    "items": {"type": "integer", "minimum": 0, "maximum": _MAX_TOKEN},
    "minItems": 1,
}


def prompt_schema(**text: Any) -> dict[str, Any]:
    """The four shapes that ``read_prompt`` reads, as a JSON schema; ``text`` is what holds for each text."""
    said = {"type": "string", **text}
    several: list[Mapping[str, Any]] = [
        {"type": "array", "items": items, "minItems": 1, "maxItems": _MOST_TOLD} for items in (said, _TOKENS)
    ]
    return {"anyOf": [said, _TOKENS, *several]}


class _Completion(SharedFields, kw_only=True):
    prompt: Annotated[Any, Meta(extra_json_schema=prompt_schema())]
    suffix: str | None = None
    echo: bool | None = None
    best_of: Annotated[int, Meta(ge=1, le=128)] | None = None
    logprobs: Annotated[int, Meta(ge=0)] | None = None
    max_tokens: Annotated[int, Meta(ge=0)] | None = None


CompletionBody = Annotated[
    _Completion,
    Meta(extra_json_schema={**NAMES_ALLOWED, "allOf": [STREAM_OPTIONS_NEED_A_STREAM, _BEST_OF_IS_WHOLE]}),
]
"""A body, as a document tells it."""

_COMPLETION = msgspec.json.Decoder(_Completion)


def read_completion(arrival: Arrival, body: bytes, limits: BodyLimits) -> ChatRequest:
    """A body as a hub request.

    A token counts as four bytes in ``prompt_bytes``: there is no text to measure.

    Raises:
        InvalidRequest: naming the field.
    """
    raw = skim(body, max_depth=limits.max_depth)
    refuse_transport_fields(raw)
    completion = decode(_COMPLETION, body)
    completion.check()
    _check(completion)
    prompt = read_prompt(completion.prompt, limits.max_messages)
    return ChatRequest(
        arrival=arrival,
        model=completion.model,
        prompt=prompt,
        stream=bool(completion.stream),
        include_usage=completion.include_usage,
        n=completion.n or 1,
        max_tokens=completion.max_tokens,
        sampling=completion.sampling(),
        needs=_needs(completion, prompt),
        prompt_bytes=prompt_bytes(prompt) + text_bytes(completion.suffix or ""),
        unverified_user=completion.user or "",
        raw=raw,
    )


def _check(completion: _Completion) -> None:
    if completion.best_of is not None and completion.best_of < (completion.n or 1):
        raise InvalidRequest("best_of must not be less than n", param="best_of")
    if completion.stream and completion.best_of is not None and completion.best_of > 1:
        raise InvalidRequest("best_of cannot be streamed", param="best_of")


def read_prompt(value: Any, max_prompts: int, *, name: str = "prompt") -> Prompt:
    """One of the four shapes: a text, texts, the tokens of a text, or those of several.

    Raises:
        InvalidRequest: it is none of them; ``name`` is the field's.
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        raise InvalidRequest(f"{name} must be a string or an array that is not empty", param=name)
    if _are_tokens(value):
        return tuple(value)
    if len(value) > max_prompts:
        raise InvalidRequest(f"{name} must hold at most {max_prompts} {name}s", param=name)
    kinds = set(map(type, value))
    if kinds == {str}:
        return tuple(value)
    if kinds == {list} and all(tokens and _are_tokens(tokens) for tokens in value):
        return tuple(map(tuple, value))
    raise InvalidRequest(f"{name} must be a string, strings, tokens, or arrays of tokens", param=name)


def _are_tokens(values: list[Any]) -> bool:
    """Whether these are numbers that a vocabulary may have; a boolean is none, though Python says otherwise."""
    return set(map(type, values)) == {int} and min(values) >= 0 and max(values) <= _MAX_TOKEN


def prompt_bytes(prompt: Prompt) -> int:
    """The UTF-8 length of a prompt's texts; a token counts as four."""
    if isinstance(prompt, str):
        return text_bytes(prompt)
    total = 0
    for item in prompt:
        if isinstance(item, str):
            total += text_bytes(item)
        else:
            total += _BYTES_PER_TOKEN * (1 if isinstance(item, int) else len(item))
    return total


def _needs(completion: _Completion, prompt: Prompt) -> frozenset[str]:
    asked = {
        "raw_prompt": True,
        "token_prompt": isinstance(prompt, tuple) and not isinstance(prompt[0], str),
        "many": prompt_count(prompt) > 1,
        "echo": completion.echo,
        "suffix": completion.suffix,
        "best_of": completion.best_of is not None and completion.best_of > 1,
        "logprobs": completion.logprobs is not None,
    }
    return frozenset(completion.needs() | {need for need, value in asked.items() if value})
