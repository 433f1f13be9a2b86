"""Anthropic's error envelope, written from any of our errors. What a provider sends is read by ``openai_errors``."""

from http import HTTPStatus
from typing import Any

import msgspec

from gateway.errors import HeadraceError, UpstreamError, UpstreamUnauthorised
from gateway.wire.openai_errors import plain_message

_TYPES = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.PAYMENT_REQUIRED: "billing_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.NOT_FOUND: "not_found_error",
    HTTPStatus.REQUEST_TIMEOUT: "timeout_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
    HTTPStatus.SERVICE_UNAVAILABLE: "overloaded_error",
    HTTPStatus.GATEWAY_TIMEOUT: "timeout_error",
}
_WORDS = frozenset(
    {*_TYPES.values(), "api_error", "conflict_error", "invalid_request_error", "request_too_large", "overloaded_error"}
)
"""The types that Anthropic documents: https://docs.claude.com/en/api/errors, and ``ErrorType`` of its SDK."""


def error_body(error: HeadraceError) -> bytes:
    """The envelope ``{"type": "error", "error": {"type", "message"}}``.

    An upstream's own type survives where it is one of Anthropic's, except where it refused our key: the client would
    think it was its own. The field at fault, where there is one, stands in ``param``, which Anthropic does not have. A
    thread that cannot be gone on with has the details on which its clients send the whole conversation again.
    """
    fields: dict[str, Any] = {"type": _type_of(error), "message": plain_message(error.message)}
    if error.param is not None:
        fields["param"] = error.param
    if error.param == "thread":
        fields["details"] = {"error_code": "thread_not_found"}
    return msgspec.json.encode({"type": "error", "error": fields})


def error_event(error: HeadraceError) -> bytes:
    """The envelope as an event of a stream, by the name on which Anthropic's clients raise."""
    return b"event: error\ndata: %b\n\n" % error_body(error)


def _type_of(error: HeadraceError) -> str:
    own = error.upstream_type if isinstance(error, UpstreamError) else None
    if own in _WORDS and not isinstance(error, UpstreamUnauthorised):
        return own
    status = error.http_status
    if status in _TYPES:
        return _TYPES[HTTPStatus(status)]
    return "invalid_request_error" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "api_error"
