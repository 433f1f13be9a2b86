"""OpenAI's bodies as Ollama's, for backends that speak Ollama's format: chats, completions and embeddings.

What a prompt is too long for is refused there and not cut (``truncate: false``): Ollama's own clients know that it may
be, others do not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec

from gateway.request_fields import NEVER_MATTERS, says_nothing
from gateway.types import ChatRequest
from gateway.wire.cannot_carry import cannot_carry
from gateway.wire.chat_turns_to_ollama import Fields, messages_of
from gateway.wire.json_body import opened_fields

RENAMED: Mapping[str, str] = MappingProxyType(
    {
        "frequency_penalty": "frequency_penalty",
        "min_p": "min_p",
        "presence_penalty": "presence_penalty",
        "repetition_penalty": "repeat_penalty",
        "seed": "seed",
        "temperature": "temperature",
        "top_k": "top_k",
        "top_p": "top_p",
    }
)
"""Fields of the same meaning, by their names in ``options``."""

MAPPED = frozenset(
    {
        "add_generation_prompt",
        "continue_final_message",
        "function_call",
        "functions",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "model",
        "reasoning_effort",
        "response_format",
        "stop",
        "thinking",
        "tool_choice",
        "tools",
        "top_logprobs",
    }
)
"""Fields of chats that go on under another name or in another form; an assistant's last turn is always gone on with."""

_OF_TEXT = frozenset({"dimensions", "encoding_format", "input", "prompt", "suffix"})
CARRIES = RENAMED.keys() | MAPPED | _OF_TEXT | {"stream", "stream_options"}
"""All that reaches such a backend."""

_SAID_ANYWAY = frozenset({"temperature", "top_p", "reasoning_effort", "thinking"})
"""Fields whose usual value is not what leaving them out says there: its models come with values of their own."""
_EFFORTS: Mapping[str, Any] = MappingProxyType(
    {"none": False, "minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "max", "max": "max"}
)
_UNCUT: Fields = {"truncate": False, "shift": False}
_ENCODE = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What goes with every translated request: the window to load a model with, and how long to keep it loaded.

    Zero and an empty text leave that to the server.
    """

    num_ctx: int = 0
    keep_alive: str = ""

    def fields(self) -> Fields:
        """What is said besides the options."""
        return {"keep_alive": self.keep_alive} if self.keep_alive else {}

    def options(self) -> Fields:
        """What is said among the options."""
        return {"num_ctx": self.num_ctx} if self.num_ctx else {}


def chat_body(request: ChatRequest, model: str, terms: Terms) -> bytes:
    """The body of ``/api/chat`` for ``request``, which is in the shape of a chat.

    Raises:
        UpstreamRefused: something in it has no place there, which ``param`` names.
    """
    given = _given(request)
    body: Fields = {"model": model, "messages": messages_of(given.get("messages") or []), "stream": request.stream}
    if (tools := _tools(given)) and _may_call(given):
        body["tools"] = tools
    body |= _shape(given.get("response_format"))
    body |= _thinking(given)
    if given.get("logprobs"):
        body |= {"logprobs": True, "top_logprobs": given.get("top_logprobs") or 0}
    return _ENCODE({**body, **_UNCUT, **terms.fields(), **_options(request, given, terms)})


def completion_body(request: ChatRequest, model: str, terms: Terms) -> bytes:
    """The body of ``/api/generate`` for a completion: without a template, but where there is a suffix to lead to.

    Raises:
        UpstreamRefused: likewise.
    """
    given = _given(request)
    if not isinstance(given.get("prompt"), str):
        raise cannot_carry("prompt")
    if "logprobs" in given:
        raise cannot_carry("logprobs")
    body: Fields = {"model": model, "prompt": given["prompt"], "stream": request.stream}
    body |= {"suffix": given["suffix"]} if given.get("suffix") else {"raw": True}
    return _ENCODE({**body, **_UNCUT, **terms.fields(), **_options(request, given, terms)})


def embed_body(request: ChatRequest, model: str, terms: Terms) -> bytes:
    """The body of ``/api/embed`` for embeddings.

    Raises:
        UpstreamRefused: likewise.
    """
    given = _given(request)
    texts = given.get("input")
    if not isinstance(texts, str) and not all(isinstance(text, str) for text in texts or ()):
        raise cannot_carry("input")
    body: Fields = {"model": model, "input": texts, "truncate": False, **terms.fields()}
    if given.get("dimensions"):
        body["dimensions"] = given["dimensions"]
    return _ENCODE({**body, **({"options": terms.options()} if terms.num_ctx else {})})


def _given(request: ChatRequest) -> Fields:
    """What the request says, decoded.

    Raises:
        UpstreamRefused: a field that could change the answer is none that we can carry.
    """
    raw = request.raw
    said = [
        name
        for name in raw
        if (bytes(raw[name]) != b"null" if name in _SAID_ANYWAY else not says_nothing(name, raw[name]))
    ]
    given = opened_fields(raw, said)
    for name in sorted(given.keys() - CARRIES - NEVER_MATTERS):
        raise cannot_carry(name)
    return given


def _options(request: ChatRequest, given: Fields, terms: Terms) -> Fields:
    options = {there: given[here] for here, there in RENAMED.items() if here in given}
    if request.max_tokens is not None:
        if request.max_tokens < 1:  # which would be no limit there
            raise cannot_carry("max_tokens")
        options["num_predict"] = request.max_tokens
    if stop := given.get("stop"):
        options["stop"] = [stop] if isinstance(stop, str) else stop
    options |= terms.options()
    return {"options": options} if options else {}


def _tools(given: Fields) -> list[Fields]:
    tools = [_tool(tool, f"tools[{at}]") for at, tool in enumerate(given.get("tools") or ())]
    legacy = given.get("functions") or ()
    return tools + [_tool({"function": function}, f"functions[{at}]") for at, function in enumerate(legacy)]


def _tool(tool: Fields, where: str) -> Fields:
    function = tool.get("function")
    if tool.get("type", "function") != "function" or not isinstance(function, dict):
        raise cannot_carry(where)
    made: Fields = {"name": function.get("name"), "parameters": function.get("parameters") or {"type": "object"}}
    made |= {name: function[name] for name in ("description", "strict") if function.get(name)}
    return {"type": "function", "function": made}


def _may_call(given: Fields) -> bool:
    """Whether the model is offered its tools: it chooses for itself, and cannot be made to call one."""
    name = "tool_choice" if given.get("tool_choice") is not None else "function_call"
    choice = given.get(name)
    if choice not in (None, "auto", "none"):
        raise cannot_carry(name)
    return choice != "none"


def _shape(response_format: Any) -> Fields:
    match response_format:
        case None:
            return {}
        case {"type": "json_object"}:
            return {"format": "json"}
        case {"type": "json_schema", "json_schema": {"schema": schema}}:
            return {"format": schema}
        case _:
            raise cannot_carry("response_format")


def _thinking(given: Fields) -> Fields:
    effort = given.get("reasoning_effort")
    if effort is None:
        match given.get("thinking"):
            case {"type": "disabled"}:
                return {"think": False}
            case {"type": "enabled"}:
                return {"think": True}
            case _:
                return {}
    if effort not in _EFFORTS:
        raise cannot_carry("reasoning_effort")
    return {"think": _EFFORTS[effort]}
