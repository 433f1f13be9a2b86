"""A head that comes again: clients send the same one with each request of a connection, but for the body's length.

What was parsed and found without fault needs no parser the next time: that it is the same bytes says all that was said
the first time. The client's key stands in it, and so in memory for as long as the connection lives.
"""

import re

from gateway.exchange import Notes, RawHeaders, RepeatedHeaders
from gateway.types import Operation

_LENGTH = re.compile(rb"(?i)\r\ncontent-length:[ \t]*([0-9]+)[ \t]*\r\n")
_MOST_DIGITS = 9
_MOST_BYTES = 16 * 1024
_OWN = frozenset({b"content-encoding", b"expect", b"transfer-encoding", b"upgrade"})
"""Who sends these asks for more than the bytes of a body of that length."""


class KnownHead:
    """A head of a request for ``operation``, with these header fields, one of which is the body's length."""

    __slots__ = ("_end", "_headers", "_length_at", "_notes", "_start", "operation")

    def __init__(self, start: bytes, end: bytes, headers: RawHeaders, operation: Operation) -> None:
        self._start = start
        self._end = end
        self._headers = tuple(headers)
        self._length_at = [name for name, _ in headers].index(b"content-length")
        self._notes = Notes()
        self.operation = operation

    @classmethod
    def of(cls, data: bytes, headers: RawHeaders, operation: Operation) -> "KnownHead | None":
        """The head with which ``data`` begins, a request that is kept alive; ``None`` where nothing is gained by it.

        Args:
            data: what was read: the head and some of its body, or all of it.
            headers: the head's fields, names in lower case.
            operation: what its target stands for.
        """
        body_at = data.find(b"\r\n\r\n", 0, _MOST_BYTES) + 4
        length = _LENGTH.search(data, 0, body_at)
        if length is None or len(data) - body_at > int(length[1]) or any(name in _OWN for name, _ in headers):
            return None
        return cls(data[: length.start(1)], data[length.end(1) : body_at], headers, operation)

    def frame(self, data: bytes) -> tuple[int, bytes] | None:
        """Where in ``data`` the body begins and how long it says to be, where ``data`` begins with this very head."""
        start, end = self._start, self._end
        if not data.startswith(start):
            return None
        digits_at = len(start)
        end_at = data.find(b"\r", digits_at, digits_at + _MOST_DIGITS + 1)
        digits = data[digits_at:end_at]
        if not digits.isdigit() or not data.startswith(end, end_at):
            return None
        return end_at + len(end), digits

    def headers(self, digits: bytes) -> RepeatedHeaders:
        """The fields of a request whose body is so long."""
        headers = RepeatedHeaders(self._headers)
        headers[self._length_at] = (b"content-length", digits)
        headers.notes = self._notes
        return headers
