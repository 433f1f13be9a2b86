"""The refusal of something that a provider's format has no place for."""

from gateway.errors import UpstreamRefused


def cannot_carry(path: str) -> UpstreamRefused:
    """The error that names it, by its path in the client's body."""
    return UpstreamRefused(
        f"this model's provider takes no `{path}`: leave that out, or ask for another model",
        http_status=400,
        param=path,
        upstream_code="unsupported_parameter",
    )
