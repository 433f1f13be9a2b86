"""Out: a candidate that cannot do what the request asks for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from gateway.errors import ClientError, Unsupported
from gateway.types import Candidate, Context, Objection

# What every backend is given in its own way, and what is for the provider's books: no answer depends on whether these
# fields are carried.
_NEVER_MATTERS = frozenset(
    {
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

# What many clients send with every request: the value that says what leaving the field out says.
_NEUTRAL: Mapping[str, Any] = {
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
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1,
}


@dataclass(frozen=True, kw_only=True)
class Capable:
    """Out: a candidate that cannot do what the request asks for.

    Three questions, in this order: does it serve this kind of request at all; can it carry every field that the client
    set, which names what to leave out; has it every capability that the answer needs (``tools``, ``vision``...). A
    candidate that declares no fields or no capabilities is taken to have them all.

    A field is never dropped in silence if that could change the answer. Fields that cannot (``user``, ``metadata``,
    ``store``...) and fields at the value that leaving them out means (``"presence_penalty": 0``, ``null``) are no
    reason to refuse.

    Attributes:
        may_drop: further fields that this route may lose on the way to a backend that does not know them.

    Example::

        filter:
          - {use: capable, may_drop: [seed, parallel_tool_calls]}
    """

    may_drop: tuple[str, ...] = ()

    refusal: ClassVar[type[ClientError] | None] = Unsupported

    def exclude(self, ctx: Context, candidate: Candidate) -> str | None:
        """What it cannot do, by name (cannot carry `logit_bias`), or ``None``."""
        request = ctx.request
        if request.arrival.operation not in candidate.operations:
            return f"does not serve `{request.arrival.operation}`"
        if candidate.carries is not None:
            lost = request.raw.keys() - candidate.carries - _NEVER_MATTERS
            lost = {field for field in lost if field not in self.may_drop and not _neutral(field, request.raw[field])}
            if lost:
                return Objection(f"cannot carry {_quoted(lost)}", param=min(lost))
        if candidate.capabilities is not None:
            missing = request.needs - candidate.capabilities
            if missing:
                return f"has no {_quoted(missing)}"
        return None


def _neutral(field: str, raw: Any) -> bool:
    try:
        value = msgspec.json.decode(raw)
    except (
        msgspec.DecodeError,
        RecursionError,
    ):  # a number out of every range, say: surely not what leaving it out means
        return False
    return value is None or (field in _NEUTRAL and value == _NEUTRAL[field])


def _quoted(names: set[str] | frozenset[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))
