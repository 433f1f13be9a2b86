"""What an upstream's machine-readable words mean, whatever status they come with. Text for people is never read."""

from collections.abc import Iterable

from gateway.errors import (
    UpstreamContextExceeded,
    UpstreamError,
    UpstreamFailed,
    UpstreamOutOfFunds,
    UpstreamRateLimited,
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

_CLASSES: dict[str, type[UpstreamError]] = {
    **dict.fromkeys(_OUT_OF_FUNDS, UpstreamOutOfFunds),
    **dict.fromkeys(_CONTEXT_EXCEEDED, UpstreamContextExceeded),
    **dict.fromkeys(_RATE_LIMITED, UpstreamRateLimited),
}


def class_of_words(words: Iterable[str | None]) -> type[UpstreamError] | None:
    """The class of an error by its ``code`` and ``type``; ``None`` where neither is one of those that we know.

    An account that is used up goes before a rate limit: some providers send both words together.
    """
    found = {_CLASSES[word] for word in words if word in _CLASSES}
    return next(
        (cls for cls in (UpstreamOutOfFunds, UpstreamContextExceeded, UpstreamRateLimited) if cls in found), None
    )


def error_inside(body: bytes, unsaid: str) -> UpstreamError:
    """The error that an upstream sent where an answer should be, or in the middle of one; ``unsaid`` if it is mute.

    ``UpstreamFailed``, unless its code or type says more. Of an account that is used up no words go on: a client would
    think that it was its own.
    """
    message, kind, code, param = read_error(body)
    cls = class_of_words((kind, code)) or UpstreamFailed
    if cls is UpstreamOutOfFunds:
        return cls("the upstream refused our account", upstream_type=kind, upstream_code=code)
    return cls(redact(message) or unsaid, upstream_type=kind, upstream_code=code, param=param)
