"""What a request's head must say, so that everybody agrees on where the request ends (RFC 9112, sections 3, 6 and 11).

llhttp refuses most of what request smuggling lives on: lengths that conflict or are no numbers, a length beside chunks,
bare CR and LF, folded lines, blanks before a colon, NUL. What it lets through is refused here.
"""

from gateway.errors import ClientError, InvalidRequest

MARKED = frozenset({b"host", b"transfer-encoding", b"expect"})
"""The header fields that framing depends on."""

_VERSIONS = ("1.1", "1.0")


def framing_fault(version: str, hosts: int, transfer_encoding: bytes | None) -> InvalidRequest | None:
    """Why a head is refused, or ``None``.

    Args:
        version: of HTTP, as the request says.
        hosts: how many ``Host`` fields there are.
        transfer_encoding: the value of ``Transfer-Encoding``, several joined by commas; ``None`` where there is none.
    """
    if version not in _VERSIONS:
        return InvalidRequest("this server speaks HTTP/1.1 and HTTP/1.0")
    if hosts != 1 and (hosts or version == "1.1"):
        return InvalidRequest("an HTTP/1.1 request has exactly one Host header")
    if transfer_encoding is None:
        return None
    if version == "1.0":
        return InvalidRequest("HTTP/1.0 knows no Transfer-Encoding")
    if transfer_encoding.strip(b" \t").lower() != b"chunked":
        return InvalidRequest("the only transfer coding that is read here is chunked")
    return None


class UriTooLong(ClientError):
    """The request line alone is over the limit of the headers."""

    http_status = 414
    code = "uri_too_long"
