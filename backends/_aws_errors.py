"""What AWS refuses, mapped by the exception that the answer's head names."""

from collections.abc import Collection

from backends._http import Refusal, from_refusal
from gateway.errors import UpstreamError, UpstreamRefused, UpstreamUnauthorised
from gateway.wire.converse_errors import class_of_exception
from gateway.wire.openai_errors import read_error


def from_aws_refusal(refusal: Refusal, secrets: Collection[str]) -> UpstreamError:
    """The error of our tree: by the exception's name where we know it, else by the status; see ``from_refusal``."""
    error = from_refusal(refusal, secrets)
    name = refusal.kind.partition(":")[0]  # a shape may have an address behind it
    cls = class_of_exception(name, read_error(refusal.body)[0])
    if cls is not None and not isinstance(error, cls):
        refused = issubclass(cls, UpstreamRefused)
        account = issubclass(cls, UpstreamUnauthorised)
        error = cls(
            f"the upstream refused our account ({refusal.status})" if account else error.message,
            http_status=refusal.status if refused else None,
            upstream_status=refusal.status,
            retry_after_s=refusal.retry_after_s,
        )
    error.upstream_code = error.upstream_code or name or None
    return error
