"""An Ollama request in the shape of OpenAI's, for backends that do not speak Ollama's.

A chat, and a generation with a prompt for a chat's template, become a chat; a ``raw`` generation, or one that fills in
before a ``suffix``, becomes a completion.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation import Message, Translation
from gateway.operation import Operation
from gateway.wire.json_body import opened_fields
from gateway.wire.ollama_options import CARRIED, WINDOW, Options, lost_options
from gateway.wire.ollama_pictures import part_fields
from gateway.wire.ollama_turns import Turns, lost_in

Fields = dict[str, Any]

ORIGINS: Mapping[str, str] = MappingProxyType(
    {
        **{there: f"options.{here}" for here, there in CARRIED.items()},
        "reasoning_effort": "think",
        "response_format": "format",
    }
)
"""What the chat's fields are called by Ollama's clients, where the names differ."""

_KEPT = frozenset({"keep_alive", "shift", "truncate"})
"""What no answer depends on: how long Ollama keeps the model loaded, and whether it may cut a prompt that is too long.
That it may is told to have stayed behind, as the window is: a prompt is served whole, or refused as too long."""

_READ = frozenset({"model", "messages", "stream", "format", "options", "think", "logprobs", "top_logprobs", "tools"})
_OF_GENERATIONS = frozenset({"prompt", "suffix", "system", "raw", "images", "template", "context"})
_NOTHING: tuple[Any, ...] = (None, "", [], {}, False)
_CONTINUE = ("continue_final_message", "add_generation_prompt")
_EFFORTS = {True: "medium", False: "none", "max": "xhigh"}
"""Ollama's words for effort that OpenAI has another word for; a plain yes is what Ollama itself takes for `medium`."""
_ENCODE = msgspec.json.Encoder().encode


def chat_of(raw: Mapping[str, Raw], options: Options | None, turns: Turns) -> Translation:
    """The body ``raw`` of ``/api/chat``, whose messages have been read as ``turns``."""
    given = _given(raw)
    fields = _common(given, options)
    fields["messages"] = turns.chat_messages()
    if tools := given.get("tools"):
        fields["tools"] = [{**tool, "type": tool.get("type") or "function"} for tool in tools]
    origins = ORIGINS
    if turns.begun:  # as vLLM has it: OpenAI's own chat has no way to go on with a turn
        fields |= {"continue_final_message": True, "add_generation_prompt": False}
        origins = MappingProxyType({**ORIGINS, **dict.fromkeys(_CONTINUE, turns.begun)})
    lost = [*turns.lost, *lost_in(given.get("messages") or []), *_lost(given, _READ)]
    return _translation(given, fields, lost, origins)


def generation_of(raw: Mapping[str, Raw], options: Options | None, messages: Sequence[Message]) -> Translation:
    """The body ``raw`` of ``/api/generate``, which as a chat is ``messages``."""
    given = _given(raw)
    fields = _common(given, options)
    lost = _lost(given, _READ | _OF_GENERATIONS)
    lost += [name for name in ("template", "context") if given.get(name) not in _NOTHING]
    if not (given.get("raw") or given.get("suffix")):
        fields["messages"] = [_message(message) for message in messages]
        return _translation(given, fields, lost, ORIGINS)
    fields["prompt"] = given.get("prompt") or ""
    if given.get("suffix"):
        fields["suffix"] = given["suffix"]
    thought = fields.pop("reasoning_effort", "none")
    of_chats = {"think": thought != "none", "format": fields.pop("response_format", None)}
    of_chats["logprobs"] = fields.pop("logprobs", False)
    fields.pop("top_logprobs", None)
    lost += [name for name, value in of_chats.items() if value]  # a completion neither thinks nor has a form
    lost += [name for name in ("images", "system") if given.get(name)]
    mode = "raw" if given.get("raw") else "suffix"
    origins = MappingProxyType({**ORIGINS, "prompt": mode})
    return _translation(given, fields, lost, origins, into=Operation.COMPLETION)


def _given(raw: Mapping[str, Raw]) -> Fields:
    return opened_fields(raw, raw)


def _common(given: Fields, options: Options | None) -> Fields:
    """What a chat and a completion have in common."""
    fields: Fields = {"model": given["model"], **(options or Options()).chat_fields()}
    fields["stream"] = given.get("stream") is not False
    if (think := given.get("think")) is not None:
        fields["reasoning_effort"] = _EFFORTS.get(think, think)
    match given.get("format"):
        case None | "":
            pass
        case "json":
            fields["response_format"] = {"type": "json_object"}
        case schema:
            named: Fields = {"name": "answer", "schema": schema}
            if schema.get("additionalProperties") is False:  # OpenAI keeps to others only as well as it can
                named["strict"] = True
            fields["response_format"] = {"type": "json_schema", "json_schema": named}
    if given.get("logprobs"):
        fields["logprobs"] = True
        if given.get("top_logprobs"):
            fields["top_logprobs"] = given["top_logprobs"]
    return fields


def _lost(given: Fields, known: frozenset[str]) -> list[str]:
    """Options and fields that nobody here could carry."""
    lost = lost_options(given.get("options") or {})
    return lost + [name for name, value in given.items() if name not in known | _KEPT and value not in _NOTHING]


def _message(message: Message) -> Fields:
    if isinstance(message.content, tuple):
        return {"role": message.role, "content": [part_fields(part) for part in message.content]}
    return {"role": message.role, "content": message.content}


def _translation(
    given: Fields,
    fields: Fields,
    lost: list[str],
    origins: Mapping[str, str],
    *,
    into: Operation = Operation.CHAT,
) -> Translation:
    offers = [name for name in ("shift", "truncate") if given.get(name) is True]
    if (given.get("options") or {}).get(WINDOW) is not None:
        offers.append(f"options.{WINDOW}")
    return Translation(
        fields={name: Raw(_ENCODE(value)) for name, value in fields.items()},
        lost=tuple(dict.fromkeys(lost)),
        origins=origins,
        offers=tuple(offers),
        into=into,
    )
