"""What an upstream refuses, mapped once: by the status of its answer, and by code and type where those say more.

Words for people never name a host, a URL or a key: of an upstream's own error its message is told, redacted and
bounded.
"""

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from gateway.errors import (
    UpstreamContextExceeded,
    UpstreamError,
    UpstreamFailed,
    UpstreamInvalid,
    UpstreamMisspoke,
    UpstreamOutOfFunds,
    UpstreamRateLimited,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnauthorised,
    UpstreamUnreachable,
)
from gateway.ports import UpstreamAnswer
from gateway.wire.openai_errors import is_moderated, read_error
from gateway.wire.redaction import redact
from gateway.wire.upstream_codes import class_of_words


class UpstreamNotFound(UpstreamFailed):
    """The backend has no such model, or no such path.

    The route chose the backend and the policy file names the model, so it is no fault of the client's: another backend
    may have it. Nor is it the backend's: it may well serve its other models and paths.
    """

    code = "upstream_not_found"
    blames_backend = False
    final = True


class UpstreamTierFull(UpstreamRateLimited):
    """The tier of service that the request asked for has no room; the backend may be well for all others."""

    blames_backend = False
    rest_s = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An answer that is no success: its status, as much of its body as was read, and the wait that it asks for.

    ``kind`` is the name that AWS gives to its errors in the head of an answer; others leave it empty.
    """

    status: int
    body: bytes
    retry_after_s: float | None
    kind: str = ""


REFUSAL_BYTES = 64 * 1024
"""So much of an error's body is read; a message is in the first lines or nowhere."""


REFUSAL_S = 1.0
"""So long an error's body is read: an upstream that has refused has nothing to think about any more."""


async def refusal_body(answer: UpstreamAnswer) -> bytes:
    """The beginning of an error's body, or what came of it before the connection broke or time was up."""
    body = bytearray()
    with contextlib.suppress(UpstreamError, TimeoutError):  # the status has come, and says more than either
        async with asyncio.timeout(REFUSAL_S):
            while len(body) < REFUSAL_BYTES and (piece := await answer.piece()):
                body += piece
    return bytes(body[:REFUSAL_BYTES])


_CLIENT_ERRORS = range(HTTPStatus.BAD_REQUEST, HTTPStatus.INTERNAL_SERVER_ERROR)

_TIER_FULL = 498
"""Groq's own: https://console.groq.com/docs/flex-processing"""

_BY_STATUS: Mapping[int, type[UpstreamError]] = {
    HTTPStatus.UNAUTHORIZED: UpstreamUnauthorised,
    HTTPStatus.PAYMENT_REQUIRED: UpstreamOutOfFunds,
    HTTPStatus.FORBIDDEN: UpstreamUnauthorised,
    HTTPStatus.NOT_FOUND: UpstreamNotFound,
    HTTPStatus.METHOD_NOT_ALLOWED: UpstreamNotFound,
    HTTPStatus.GONE: UpstreamNotFound,
    HTTPStatus.PROXY_AUTHENTICATION_REQUIRED: UpstreamUnreachable,
    HTTPStatus.REQUEST_TIMEOUT: UpstreamTimeout,
    HTTPStatus.TOO_MANY_REQUESTS: UpstreamRateLimited,
    _TIER_FULL: UpstreamTierFull,
    HTTPStatus.GATEWAY_TIMEOUT: UpstreamTimeout,
}


def from_refusal(refusal: Refusal, secrets: Collection[str]) -> UpstreamError:
    """The error of our tree for an answer that is no success.

    ==================  =====================================================================================
    401, 403            ``UpstreamUnauthorised``; the upstream's words are dropped, since they may quote our key
    402                 ``UpstreamOutOfFunds``, and every other 4xx with the code or type of an account that is used up
    404, 405, 410       ``UpstreamNotFound``
    408, 504            ``UpstreamTimeout``
    429                 ``UpstreamRateLimited``; Groq's 498 is one that harms nobody else
    every other 4xx     ``UpstreamRefused`` with the same status: the backend blames the request;
                        ``UpstreamContextExceeded`` where its code or type says that the prompt is too long, for its
                        window or, with 413, for our allowance; ``UpstreamMisspoke`` where it blames its model. A 403
                        of a prompt that was flagged is one, too
    5xx, 529 too        ``UpstreamFailed``
    1xx, 3xx, the rest  ``UpstreamInvalid``
    ==================  =====================================================================================
    """
    status, body = refusal.status, refusal.body
    for secret in secrets:  # before the message is cut to length, or half a key could be left at its end
        body = body.replace(secret.encode(), b"")
    message, kind, code, param = (None if words is None else redact(words, secrets) for words in read_error(body))
    cls = UpstreamRefused if status == HTTPStatus.FORBIDDEN and is_moderated(body) else _class_of(status, (kind, code))
    words = f"the upstream answered {status}"
    if issubclass(cls, UpstreamUnauthorised):
        words = f"the upstream refused our account ({status})"
    elif cls is UpstreamInvalid:
        words = f"the upstream answered {status}, which is no answer; redirects are not followed"
    elif message:
        words = message if issubclass(cls, UpstreamRefused) else f"{words}: {message}"
    blames_request = issubclass(cls, UpstreamRefused)
    return cls(
        words,
        http_status=status if blames_request else None,
        upstream_status=status,
        retry_after_s=refusal.retry_after_s,
        upstream_type=kind,
        upstream_code=code,
        param=param if blames_request else None,
    )


def hide_secrets(error: UpstreamError, secrets: Collection[str]) -> None:
    """Takes our secrets out of an error that came inside an answer: the wire format that read it knows of none."""
    error.message = redact(error.message, secrets)
    error.args = (error.message,)
    error.upstream_type = error.upstream_type and redact(error.upstream_type, secrets)
    error.upstream_code = error.upstream_code and redact(error.upstream_code, secrets)
    error.param = error.param and redact(error.param, secrets)


def _class_of(status: int, words: tuple[str | None, ...]) -> type[UpstreamError]:
    said = class_of_words(words) if status in _CLIENT_ERRORS else None
    if said is UpstreamOutOfFunds:
        return said
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status in _CLIENT_ERRORS:
        too_large = status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE and said is UpstreamRateLimited
        if too_large or said is UpstreamContextExceeded:  # more tokens than a minute may have, say: Groq
            return UpstreamContextExceeded
        return UpstreamMisspoke if said is UpstreamMisspoke else UpstreamRefused
    return UpstreamFailed if HTTPStatus.INTERNAL_SERVER_ERROR <= status < 600 else UpstreamInvalid  # noqa: PLR2004  # HTTP's own end
