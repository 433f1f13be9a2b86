"""Why an answer ended: Anthropic's words and the hub's, which are OpenAI's."""

from collections.abc import Mapping
from types import MappingProxyType

HUB_REASONS: Mapping[str, str] = MappingProxyType(
    {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
        "tool_use": "tool_calls",
        "refusal": "content_filter",
    }
)
"""By Anthropic's ``stop_reason``. Others (``pause_turn``, and whatever is to come) stay what they are."""

_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}


def stop_reason(reason: str, *, stop_sequence: str | None, called: bool, declined: bool) -> str:
    """Anthropic's word for the end of an answer that ``called`` tools or ``declined``.

    What is filtered, refused or unknown never looks like a normal end. Servers that end calls with ``stop`` mean them.
    """
    if declined and reason in {"stop", ""}:
        return "refusal"
    if reason in {"stop", ""}:
        if called:
            return "tool_use"
        return "stop_sequence" if stop_sequence is not None else "end_turn"
    return _STOP_REASONS.get(reason, reason)
