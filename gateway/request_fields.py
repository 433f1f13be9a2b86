"""Which fields of a request change an answer, and which values say what leaving the field out says.

Whoever gives a request to somebody who does not know all of its fields asks here what may stay behind without a word.
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from gateway.operation import Operation

NEVER_MATTERS = frozenset(
    {
        "cache_control",
        "messages",
        "metadata",
        "model",
        "prediction",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "user",
    }
)
"""What every backend is given in its own way, and what is for the provider's books: no answer depends on whether these
fields are carried."""

NEUTRAL: Mapping[str, Any] = MappingProxyType(
    {
        "best_of": 1,
        "echo": False,
        "frequency_penalty": 0,
        "function_call": "none",
        "functions": [],
        "logit_bias": {},
        "logprobs": False,
        "modalities": ["text"],
        "n": 1,
        "parallel_tool_calls": True,
        "presence_penalty": 0,
        "reasoning_effort": "none",
        "response_format": {"type": "text"},
        "stop": [],
        "suffix": "",
        "temperature": 1,
        "thinking": {"type": "disabled"},
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1,
    }
)
"""What many clients send with every request: the value that says what leaving the field out says."""

TOOL_GRAMMAR: Mapping[Operation, str] = MappingProxyType(
    {Operation.CHAT: "tools.custom.format", Operation.RESPONSE: "tools.format"}
)
"""Where clients write the grammar of a custom tool: what needs the capability ``tool_grammar``, and may be dropped."""

_PARTS = ("messages", "input", "images")
_ANSWER_FORMATS = ("response_format", "text", "output_config", "format")
_ASKING: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "audio": ("audio", "modalities", *_PARTS),
        "file": _PARTS,
        "json_mode": _ANSWER_FORMATS,
        "json_schema": _ANSWER_FORMATS,
        "logprobs": ("logprobs", "top_logprobs", "include"),
        "many": ("n", "prompt", "input"),
        "penalties": ("presence_penalty", "frequency_penalty", "repetition_penalty", "options"),
        "raw_prompt": ("prompt",),
        "token_prompt": ("prompt", "input"),
        "tool_grammar": ("tools",),
        "tools": ("tools", "functions"),
        "vision": _PARTS,
    }
)
"""Which fields call for a capability, in any client's format; where it has the name of one, that one."""

_INDEX = re.compile(r"\[\d+\]")


def says_nothing(field: str, raw: Any) -> bool:
    """Whether the JSON ``raw`` is null, or the value that leaving ``field`` out means."""
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):  # a number out of every range, say: surely not what silence means
        return False
    return value is None or (field in NEUTRAL and value == NEUTRAL[field])


def field_that_needs(capabilities: Iterable[str], fields: Mapping[str, Any]) -> str | None:
    """The field of a body that calls for the first of the capabilities, by name; ``None`` where none is known to."""
    for capability in sorted(capabilities):
        for name in _ASKING.get(capability, (capability,)):
            if name in fields and not says_nothing(name, fields[name]):
                return name
    return None


def names_path(names: Iterable[str], path: str) -> bool:
    """Whether one of ``names`` is the path or what it lies in: ``output_config`` names ``output_config.effort``.

    Places in lists do not count: ``tools.input_examples`` names ``tools[3].input_examples``.
    """
    plain = _INDEX.sub("", path)
    return any(plain == name or plain.startswith(f"{name}.") for name in names)
