"""What the exceptions of AWS Bedrock mean, by their names: in the head of a refusal, or inside a stream."""

from collections.abc import Mapping
from types import MappingProxyType

from gateway.errors import (
    UpstreamContextExceeded,
    UpstreamError,
    UpstreamFailed,
    UpstreamRateLimited,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnauthorised,
)
from gateway.wire.openai_errors import read_error
from gateway.wire.redaction import redact

_CLASSES: Mapping[str, type[UpstreamError]] = MappingProxyType(
    {
        # https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html#API_runtime_Converse_Errors
        "accessdeniedexception": UpstreamUnauthorised,
        "internalserverexception": UpstreamFailed,
        "modelerrorexception": UpstreamFailed,
        "modelnotreadyexception": UpstreamRateLimited,
        "modelstreamerrorexception": UpstreamFailed,
        "modeltimeoutexception": UpstreamTimeout,
        "servicequotaexceededexception": UpstreamRateLimited,
        "serviceunavailableexception": UpstreamFailed,
        "throttlingexception": UpstreamRateLimited,
        "validationexception": UpstreamRefused,
        # https://docs.aws.amazon.com/bedrock/latest/APIReference/CommonErrors.html
        "expiredtokenexception": UpstreamUnauthorised,
        "incompletesignature": UpstreamUnauthorised,
        "invalidsignatureexception": UpstreamUnauthorised,
        "unrecognizedclientexception": UpstreamUnauthorised,
    }
)
_TOO_LONG = ("input is too long", "prompt is too long", "too many input tokens", "maximum context length")
"""AWS has one name for all that is wrong with a request, so that only its words say that it is too long."""


def class_of_exception(name: str, message: str) -> type[UpstreamError] | None:
    """The class of an exception; ``None`` for one that we do not know, whose status has to do."""
    cls = _CLASSES.get(name.lower())
    if cls is UpstreamRefused and any(words in message.lower() for words in _TOO_LONG):
        return UpstreamContextExceeded
    return cls


def converse_error(name: str, payload: bytes) -> UpstreamError:
    """The error that came inside a stream, where there is no status; an unknown one is the upstream's failure."""
    message, *_ = read_error(payload)
    cls = class_of_exception(name, message) or UpstreamFailed
    if issubclass(cls, UpstreamUnauthorised):
        return cls("the upstream refused our account", upstream_code=name)
    return cls(redact(message) or "the upstream reported an error inside its stream", upstream_code=name)
