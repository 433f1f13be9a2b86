"""A request of the hub as the engine takes it, or the reason why it cannot."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from backends._engine_fields import field, refused, text_of
from backends._engine_form import GUIDED, form_of
from backends._engine_reasoning import FIELDS as REASONING_FIELDS
from backends._engine_reasoning import reasoning_of
from backends._engine_tools import offered
from embedded_engine.messages import Generate
from embedded_engine.speculative import Speculative
from embedded_engine.turns import ChatMessage, PastCall
from gateway.conversation import Message, Prompt
from gateway.types import Call, ChatRequest

_CARRIES = frozenset(
    {
        *GUIDED,
        "add_generation_prompt",
        "chat_template_kwargs",
        "continue_final_message",
        "dimensions",
        "echo",
        "encoding_format",
        "frequency_penalty",
        "ignore_eos",
        "input",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "min_p",
        "min_tokens",
        "model",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt",
        "repetition_penalty",
        "response_format",
        "seed",
        "speculative",
        "stop",
        "stream",
        "stream_options",
        "structured_outputs",
        "temperature",
        "tool_choice",
        "tools",
        "top_k",
        "top_logprobs",
        "top_p",
        "user",
    }
)
CARRIES: Mapping[bool, frozenset[str]] = {False: _CARRIES, True: _CARRIES | REASONING_FIELDS}
"""The request fields that the engine understands, by whether its model thinks."""

CAPABILITIES = frozenset(
    {
        "continue",
        "echo",
        "json_mode",
        "json_schema",
        "logit_bias",
        "logprobs",
        "many",
        "penalties",
        "raw_prompt",
        "token_prompt",
        "tools",
    }
)
"""What it can do beyond a plain answer."""

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
"""Chat templates of open models know no developer: it is what OpenAI has called the system since 2024."""

_COMPLETION_TOKENS = 16
"""What OpenAI's completions endpoint takes where ``max_tokens`` is left out; a chat has no such bound."""

_SEED_BITS = 63

_ID_DIGITS = 10
"""Of a token's number: no vocabulary comes near, and Python refuses to read numbers of thousands of digits."""


class _Prediction(msgspec.Struct):
    type: Literal["content"]
    content: str | list[dict[str, Any]]


def generations(call: Call) -> tuple[Generate, ...]:
    """One engine request for each prompt: one for a chat, as many as there are prompts for completions.

    Raises:
        UpstreamRefused: a turn or a field has something that the engine cannot take, which ``param`` names.
    """
    request = call.request
    common = msgspec.structs.replace(
        _common(request), predicted_tokens=call.expected_output_tokens, deadline_s=call.time_left_s
    )
    if request.prompt is None:
        messages = tuple(_message(number, message) for number, message in enumerate(request.messages))
        return (_chat(request, common, messages),)
    return tuple(
        msgspec.structs.replace(common, text=prompt)
        if isinstance(prompt, str)
        else msgspec.structs.replace(common, token_ids=prompt)
        for prompt in prompts(request.prompt)
    )


def _common(request: ChatRequest) -> Generate:
    sampling, completion = request.sampling, request.prompt is not None
    echo = bool(field(request, "echo", bool))
    if request.max_tokens == 0 and not echo:
        raise refused("max_tokens must be at least 1 for this model", "max_tokens", code="invalid_value")
    return Generate(
        max_tokens=_COMPLETION_TOKENS if completion and request.max_tokens is None else request.max_tokens,
        temperature=1.0 if sampling.temperature is None else sampling.temperature,
        top_k=max(sampling.top_k or 0, 0),
        top_p=1.0 if sampling.top_p is None else sampling.top_p,
        min_p=sampling.min_p or 0.0,
        seed=None if sampling.seed is None else sampling.seed % 2**_SEED_BITS,
        stop=sampling.stop,
        n=request.n,
        repetition_penalty=_number(request, "repetition_penalty", 1.0),
        presence_penalty=_number(request, "presence_penalty", 0.0),
        frequency_penalty=_number(request, "frequency_penalty", 0.0),
        logit_bias=_bias(request),
        min_tokens=field(request, "min_tokens", int) or 0,
        ignore_eos=bool(field(request, "ignore_eos", bool)),
        grammar=form_of(request),
        logprobs=_logprobs(request),
        echo=echo,
        prediction=_prediction(request),
        speculative=field(request, "speculative", Speculative) or Speculative(),
        scope=request.arrival.tenant,
    )


def _chat(request: ChatRequest, common: Generate, messages: tuple[ChatMessage, ...]) -> Generate:
    tools = offered(request)
    arguments = field(request, "chat_template_kwargs", dict[str, Any])
    continues = bool(field(request, "continue_final_message", bool))
    if field(request, "add_generation_prompt", bool) is continues:  # said, and not the one that goes with the other
        words = "add_generation_prompt must be the opposite of continue_final_message"
        raise refused(words, "add_generation_prompt", code="invalid_value")
    return msgspec.structs.replace(
        common,
        messages=messages,
        continues=continues,
        tools=tools.tools,
        tool_choice=tools.choice,
        tool_name=tools.name,
        parallel_tool_calls=tools.parallel,
        reasoning=reasoning_of(request),
        template_arguments="" if arguments is None else text_of(arguments),
    )


def _number(request: ChatRequest, name: str, unsaid: float) -> float:
    said = field(request, name, float)
    return unsaid if said is None else said


def _logprobs(request: ChatRequest) -> int | None:
    """How many alternatives beside each token: a number in completions, two fields in chats."""
    if request.prompt is not None:
        return field(request, "logprobs", int)
    if not field(request, "logprobs", bool):
        if field(request, "top_logprobs", int):
            raise refused("top_logprobs needs logprobs to be true", "top_logprobs", code="invalid_value")
        return None
    return field(request, "top_logprobs", int) or 0


def _bias(request: ChatRequest) -> tuple[tuple[int, float], ...]:
    said = field(request, "logit_bias", dict[str, float]) or {}
    if not all(token.isascii() and token.isdigit() and len(token) <= _ID_DIGITS for token in said):
        raise refused("logit_bias must be by token ids", "logit_bias", code="invalid_value")
    return tuple((int(token), bias) for token, bias in said.items())


def _prediction(request: ChatRequest) -> str | None:
    said = field(request, "prediction", _Prediction)
    if said is None:
        return None
    if isinstance(said.content, str):
        return said.content
    if any(part.get("type") != "text" or not isinstance(part.get("text"), str) for part in said.content):
        raise refused("a prediction must be text", "prediction.content")
    return "".join(part["text"] for part in said.content)


def prompts(prompt: Prompt) -> tuple[str | tuple[int, ...], ...]:
    """The texts or tokens of each prompt, one after the other."""
    if isinstance(prompt, str):
        return (prompt,)
    if all(isinstance(item, int) for item in prompt):
        return (prompt,)  # type: ignore[return-value]  # all of its items are token ids
    return prompt  # type: ignore[return-value]  # texts, or the tokens of several


def _message(number: int, message: Message) -> ChatMessage:
    where = f"messages[{number}]"
    role = _ROLES.get(message.role)
    if role is None:
        raise refused(f"this model takes no turns of role {message.role!r}", f"{where}.role")
    if isinstance(message.content, tuple):
        for at, part in enumerate(message.content):
            if part.type != "text":
                raise refused(f"this model takes no parts of type {part.type!r}", f"{where}.content[{at}].type")
    return ChatMessage(
        role=role,
        content=message.text(),
        name=message.name,
        calls=_past_calls(message, where),
        call_id=message.tool_call_id,
    )


def _past_calls(message: Message, where: str) -> tuple[PastCall, ...]:
    calls = []
    for at, call in enumerate(message.tool_calls or ()):
        if call.type != "function" or call.function is None:
            raise refused(f"this model takes no calls of type {call.type!r}", f"{where}.tool_calls[{at}].type")
        calls.append(PastCall(id=call.id, name=call.function.name, arguments=call.function.arguments or "{}"))
    return tuple(calls)
