"""How much of a request, and how much of our time, a client may take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Limits of one request.

    ``max_header_bytes`` bounds the request line with the header fields, and again what a chunked body has besides its
    data; ``max_headers`` their number; ``max_body_bytes`` the body after decoding, ``max_upload_bytes`` one with files
    in it, where that may be longer. ``head_timeout_s`` runs from a head's first byte, ``body_timeout_s`` from the
    moment at which the body is wanted or, where it is not, from the answer.
    """

    max_header_bytes: int
    max_body_bytes: int
    max_upload_bytes: int = 0
    body_timeout_s: float
    max_headers: int = 256
    head_timeout_s: float = 20.0
