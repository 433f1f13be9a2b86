"""Everything that can go wrong, as one tree.

::

    HeadraceError
    ├── ClientError                    the request is at fault: it would fail anywhere
    │   ├── InvalidRequest        400  a field is wrong (`param` names it)
    │   │   ├── Unsupported       400  understood, but nobody here can carry it
    │   │   └── ContextLengthExceeded 400
    │   ├── Unauthenticated       401
    │   ├── Forbidden             403  a good key, for something else
    │   ├── NotFound              404  unknown route
    │   │   └── ModelNotFound     404  unknown model
    │   ├── GuardBlocked          400  a guard does not let the request or its answer pass
    │   ├── MethodNotAllowed      405
    │   ├── RequestTimeout        408  the body did not arrive in time
    │   ├── BodyTooLarge          413
    │   ├── UnsupportedMediaType  415
    │   ├── UpgradeRefused        426  no other protocol is spoken on this path
    │   ├── HeadersTooLarge       431
    │   └── ClientGone            499  nobody is listening any more
    ├── Rejected                       the request is fine, we say no
    │   ├── LimitExceeded         429  the tenant's own limit
    │   ├── Overloaded            503  ours
    │   ├── ShuttingDown          503
    │   ├── GuardSilent           503  a guard could not look, and nothing passes without it
    │   └── NoCandidate           503  every backend was excluded
    ├── UpstreamError                  a backend is at fault; the only branch that is retried
    │   ├── UpstreamUnreachable   502  no connection, or it broke before an answer
    │   │   └── ConnectionsBusy   502  all of our own connections to it are in use
    │   ├── UpstreamTimeout       504
    │   │   └── UpstreamUnfinished 504  the deadline came while it was answering: not held against it
    │   ├── UpstreamRateLimited   429  retryable elsewhere, cools this one
    │   ├── UpstreamUnauthorised  502  our key was refused: the client cannot help it
    │   │   └── UpstreamOutOfFunds 502  our account there is used up: no waiting of seconds cures it
    │   ├── UpstreamFailed        502  a 5xx, or an error inside a stream
    │   ├── UpstreamInvalid       502  an answer that is none
    │   │   └── UpstreamMisspoke  502  its model wrote no such call or form: not held against it
    │   ├── UpstreamTruncated     502  an answer that stopped before its end
    │   └── UpstreamRefused       4xx  it blames the request: passed on, never retried, never held against it
    │       └── UpstreamContextExceeded 400  too long for this window: retried where the window is larger
    └── ConfigurationError             at start-up or reload; never reaches a client

Each class carries what the pipeline needs to know; nothing is ever read from an error's text. ``http_status`` is what
the client gets, ``status`` what the ledger records, ``type`` and ``code`` are the words of OpenAI's error envelope,
``retryable`` says whether another backend may help, ``blames_backend`` whether the backend's health suffers,
``rest_s`` for how long it rests at once, without a second failure and where it named no time itself, and ``final``
whether the client had better not come back with the same.
"""

from gateway.fault import ConfigurationError as ConfigurationError
from gateway.fault import HeadraceError as HeadraceError
from gateway.types import Status
from gateway.upstream_errors import ConnectionsBusy as ConnectionsBusy
from gateway.upstream_errors import UpstreamContextExceeded as UpstreamContextExceeded
from gateway.upstream_errors import UpstreamError as UpstreamError
from gateway.upstream_errors import UpstreamFailed as UpstreamFailed
from gateway.upstream_errors import UpstreamInvalid as UpstreamInvalid
from gateway.upstream_errors import UpstreamMisspoke as UpstreamMisspoke
from gateway.upstream_errors import UpstreamOutOfFunds as UpstreamOutOfFunds
from gateway.upstream_errors import UpstreamRateLimited as UpstreamRateLimited
from gateway.upstream_errors import UpstreamRefused as UpstreamRefused
from gateway.upstream_errors import UpstreamTimeout as UpstreamTimeout
from gateway.upstream_errors import UpstreamTruncated as UpstreamTruncated
from gateway.upstream_errors import UpstreamUnauthorised as UpstreamUnauthorised
from gateway.upstream_errors import UpstreamUnfinished as UpstreamUnfinished
from gateway.upstream_errors import UpstreamUnreachable as UpstreamUnreachable


class ClientError(HeadraceError):
    """The request is at fault."""

    http_status = 400
    status = Status.REJECTED
    type = "invalid_request_error"
    code = "invalid_request"


class InvalidRequest(ClientError):
    """A field is missing, of the wrong type or out of range; ``param`` names it."""


class Unsupported(InvalidRequest):
    """A field that we understand and nobody on this route can carry: refused by name, never dropped."""

    code = "unsupported_parameter"


class ContextLengthExceeded(InvalidRequest):
    """Prompt and answer do not fit the model's context window."""

    code = "context_length_exceeded"


class Unauthenticated(ClientError):
    """No key, an unknown key, or two that differ."""

    http_status = 401
    code = "invalid_api_key"


class Forbidden(ClientError):
    """A key that is known, and not for this."""

    http_status = 403
    type = "permission_error"
    code = "forbidden"


class NotFound(ClientError):
    """No such route or model."""

    http_status = 404
    code = "not_found"


class ModelNotFound(NotFound):
    """No route matches the model's name."""

    code = "model_not_found"


class GuardBlocked(ClientError):
    """A guard does not let the request pass, or its answer. Trying again would cost the same and end the same."""

    code = "content_filter"


class MethodNotAllowed(ClientError):
    """The path exists, the method does not; ``allow`` names those that do, as the header of that name wants it."""

    http_status = 405
    code = "method_not_allowed"

    def __init__(self, allow: str) -> None:
        super().__init__(f"this route takes {allow}")
        self.allow = allow


class RequestTimeout(ClientError):
    """The client did not send its body in time."""

    http_status = 408
    code = "request_timeout"


class BodyTooLarge(ClientError):
    """The body, after decoding, is over the limit."""

    http_status = 413
    code = "request_too_large"


class UnsupportedMediaType(ClientError):
    """A content type or content coding that we do not read."""

    http_status = 415
    code = "unsupported_media_type"


class UpgradeRefused(ClientError):
    """Another protocol than HTTP was asked for, on a path that speaks nothing else; clients then fall back to it."""

    http_status = 426
    code = "upgrade_refused"


class HeadersTooLarge(ClientError):
    """The header block is over the limit."""

    http_status = 431
    code = "headers_too_large"


class ClientGone(ClientError):
    """The client hung up. Nobody reads this answer; the number is the one that proxies log."""

    http_status = 499
    status = Status.CLIENT_GONE
    code = "client_closed_request"


class Rejected(HeadraceError):
    """The request is fine and we do not serve it now; ``retry_after_s`` says when to come back."""

    http_status = 503
    status = Status.REJECTED
    type = "server_error"
    code = "overloaded"


class LimitExceeded(Rejected):
    """The tenant's own limit."""

    http_status = 429
    type = "rate_limit_error"
    code = "rate_limit_exceeded"


class Overloaded(Rejected):
    """Our own limit: the queue is full, or the wait would be longer than the deadline."""


class ShuttingDown(Rejected):
    """This process drains."""

    code = "shutting_down"


class GuardSilent(Rejected):
    """A guard could not look at it, and the policy file lets nothing pass without.

    Trying again at once is no use to anybody: of what comes after an answer, that would be paid for each time.
    """

    code = "guard_unavailable"
    final = True


class NoCandidate(Rejected):
    """Every backend of the route was excluded, and not by the request's own fault."""

    status = Status.NO_CANDIDATE
    code = "no_candidate"
