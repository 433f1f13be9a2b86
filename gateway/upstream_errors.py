"""The branch of the error tree that is a backend's. ``gateway.errors`` draws the tree, and tells on all of it."""

from gateway.fault import HeadraceError
from gateway.types import Status


class UpstreamError(HeadraceError):
    """A backend did not deliver. ``backend`` is its name in the policy file; hosts and keys are never in the words.

    ``another_key`` tells that it was one key's fault and the backend has another: it may be asked again at once.
    """

    http_status = 502
    status = Status.UPSTREAM_FAILED
    type = "upstream_error"
    code = "upstream_failed"
    retryable = True
    blames_backend = True

    def __init__(
        self,
        message: str,
        *,
        backend: str = "",
        http_status: int | None = None,
        upstream_status: int | None = None,
        retry_after_s: float | None = None,
        upstream_type: str | None = None,
        upstream_code: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message, param=param, retry_after_s=retry_after_s)
        self.http_status = self.http_status if http_status is None else http_status
        self.backend = backend
        self.another_key = False
        self.upstream_status, self.upstream_type, self.upstream_code = upstream_status, upstream_type, upstream_code


class UpstreamUnreachable(UpstreamError):
    """No connection, or it broke before an answer."""

    code = "upstream_unreachable"


class ConnectionsBusy(UpstreamUnreachable):
    """All of our own connections to the backend are in use: ``max_connections`` is the limit, not the backend."""

    code = "upstream_connections_busy"
    blames_backend = False


class UpstreamTimeout(UpstreamError):
    """Connecting, the first token, the next token or the whole answer took too long."""

    http_status = 504
    code = "upstream_timeout"


class UpstreamUnfinished(UpstreamTimeout):
    """It was answering when the deadline came: a long answer, which says nothing of its health."""

    blames_backend = False


class UpstreamRateLimited(UpstreamError):
    """The backend's 429: another one may help, this one cools for ``retry_after_s``."""

    http_status = 429
    type = "rate_limit_error"
    code = "upstream_rate_limited"
    rest_s = 5.0


class UpstreamUnauthorised(UpstreamError):
    """The backend refuses our key: no fault of the client's."""

    code = "upstream_unauthorised"
    rest_s = 60.0
    final = True


class UpstreamOutOfFunds(UpstreamUnauthorised):
    """A hard quota, a spending limit or an empty account, which only people can mend: it rests for a long time."""

    code = "upstream_out_of_funds"
    rest_s = 900.0


class UpstreamFailed(UpstreamError):
    """A 5xx, or an error that arrived inside a stream."""


class UpstreamInvalid(UpstreamError):
    """An answer that is none: not JSON, empty, or no choices."""

    code = "upstream_invalid"


class UpstreamMisspoke(UpstreamInvalid):
    """What its model wrote is no call, or not the form that was asked for: another, or the next try, may do better."""

    code = "upstream_misspoke"
    blames_backend = False


class UpstreamTruncated(UpstreamError):
    """The answer stopped before its end."""

    status = Status.TRUNCATED
    code = "upstream_truncated"


class UpstreamRefused(UpstreamError):
    """The backend blames the request: passed on with its own status (``http_status``), and not held against it."""

    http_status = 400
    status = Status.REJECTED
    type = "invalid_request_error"
    code = "upstream_refused"
    retryable = False
    blames_backend = False


class UpstreamContextExceeded(UpstreamRefused):
    """The prompt does not fit this model's window: a larger one may take it, and nobody else is asked."""

    code = "context_length_exceeded"
    retryable = True
