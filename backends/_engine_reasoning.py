"""How long a model shall think, by the fields of OpenAI, OpenRouter and Anthropic, as the engine takes it."""

from typing import Literal

import msgspec

from backends._engine_fields import field, refused
from embedded_engine.turns import Reasoning
from gateway.types import ChatRequest

FIELDS = frozenset({"reasoning", "reasoning_effort", "thinking"})
"""The request fields that only a model understands whose template thinks."""


class _Reasoning(msgspec.Struct, forbid_unknown_fields=True):
    effort: str | None = None
    max_tokens: int | None = None
    min_tokens: int = 0
    on_exceed: Literal["answer", "stop"] = "answer"
    enabled: bool | None = None


class _Thinking(msgspec.Struct):
    type: Literal["enabled", "disabled"] = "enabled"
    budget_tokens: int | None = None


def reasoning_of(request: ChatRequest) -> Reasoning:
    """What ``request`` says; the most particular field wins: ``reasoning``, ``thinking``, ``reasoning_effort``.

    Raises:
        UpstreamRefused: a field is badly formed, or says both how much to think and how hard.
    """
    wanted = field(request, "reasoning", _Reasoning)
    thinking = field(request, "thinking", _Thinking)
    effort = field(request, "reasoning_effort", str)
    if wanted is not None:
        if wanted.effort is not None and wanted.max_tokens is not None:
            raise refused("reasoning takes effort or max_tokens, not both", "reasoning", code="invalid_value")
        effort = wanted.effort or (effort if wanted.max_tokens is None else None)
        return Reasoning(
            enabled=_enabled(effort) if wanted.enabled is None else wanted.enabled,
            max_tokens=wanted.max_tokens,
            min_tokens=wanted.min_tokens,
            on_exceed=wanted.on_exceed,
            effort=effort,
        )
    if thinking is not None:
        return Reasoning(enabled=thinking.type == "enabled", max_tokens=thinking.budget_tokens)
    return Reasoning(enabled=_enabled(effort), effort=effort)


def _enabled(effort: str | None) -> bool | None:
    """An effort says that it shall think, none that it shall not, silence leaves it to the template."""
    return None if effort is None else effort != "none"
