"""What an upstream's machine-readable words mean, whatever status they come with. Text for people is never read."""

from collections.abc import Iterable

from gateway.errors import (
    UpstreamContextExceeded,
    UpstreamError,
    UpstreamFailed,
    UpstreamMisspoke,
    UpstreamOutOfFunds,
    UpstreamRateLimited,
    UpstreamTimeout,
    UpstreamTruncated,
    UpstreamUnauthorised,
)
from gateway.wire.openai_errors import read_error
from gateway.wire.redaction import redact

_OUT_OF_FUNDS = (
    # https://platform.openai.com/docs/guides/error-codes
    "insufficient_quota",
    "credit_balance_exhausted",
    "organization_spend_limit_exceeded",
    "project_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing_error",  # Anthropic
    "exceeded_current_quota_error",  # Moonshot
)
_CONTEXT_EXCEEDED = (
    "context_length_exceeded",  # OpenAI, Groq, Cerebras, the embedded engine
    "exceed_context_size_error",  # llama-server, since its pull request 15780
)
_RATE_LIMITED = ("rate_limit_exceeded", "rate_limit_error", "rate_limit_reached_error")

_MISSPOKE = ("tool_use_failed", "json_validate_failed", "output_parse_failed")  # Groq
_BROKEN_OFF = frozenset(
    {
        "error",  # OpenRouter
        "abort",  # vLLM, SGLang
        "insufficient_system_resource",  # DeepSeek
    }
)
"""Reasons of an end that is none."""

_STATUSES: dict[str | None, type[UpstreamError]] = {
    # a status for a code, in the middle of an answer that began well: OpenRouter
    "401": UpstreamUnauthorised,
    "402": UpstreamOutOfFunds,
    "408": UpstreamTimeout,
    "429": UpstreamRateLimited,
    "504": UpstreamTimeout,
}

_CLASSES: dict[str, type[UpstreamError]] = {
    **dict.fromkeys(_OUT_OF_FUNDS, UpstreamOutOfFunds),
    **dict.fromkeys(_CONTEXT_EXCEEDED, UpstreamContextExceeded),
    **dict.fromkeys(_RATE_LIMITED, UpstreamRateLimited),
    **dict.fromkeys(_MISSPOKE, UpstreamMisspoke),
}


def class_of_words(words: Iterable[str | None]) -> type[UpstreamError] | None:
    """The class of an error by its ``code`` and ``type``; ``None`` where neither is one of those that we know.

    An account that is used up goes before a rate limit: some providers send both words together.
    """
    found = {_CLASSES[word] for word in words if word in _CLASSES}
    order = (UpstreamOutOfFunds, UpstreamContextExceeded, UpstreamRateLimited, UpstreamMisspoke)
    return next((cls for cls in order if cls in found), None)


def broken_off(reason: str) -> UpstreamError | None:
    """The error of an answer that ends with ``reason``; ``None`` where that is an end."""
    if reason not in _BROKEN_OFF:
        return None
    return UpstreamTruncated("the upstream broke its answer off", upstream_code=reason)


def error_inside(body: bytes, unsaid: str) -> UpstreamError:
    """The error that an upstream sent where an answer should be, or in the middle of one; ``unsaid`` if it is mute.

    ``UpstreamFailed``, unless its code or type says more. Of an account that is used up or refused no words go on: a
    client would think that it was its own.
    """
    message, kind, code, param = read_error(body)
    cls = class_of_words((kind, code)) or _STATUSES.get(code) or UpstreamFailed
    if issubclass(cls, UpstreamUnauthorised):
        return cls("the upstream refused our account", upstream_type=kind, upstream_code=code)
    return cls(redact(message) or unsaid, upstream_type=kind, upstream_code=code, param=param)
