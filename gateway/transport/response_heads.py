"""Status line and header fields of our answers, with the part that stays the same for a second made once."""

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from gateway.exchange import RawHeaders, laid


class ResponseHeads:
    """Makes heads. One serves all connections of a server."""

    def __init__(self) -> None:
        self._defaults: RawHeaders = ()
        self._starts: dict[int, bytes] = {}

    def head(self, status: int, headers: RawHeaders, framing: bytes, defaults: RawHeaders) -> bytes:
        """The whole head, up to and with its empty line.

        Args:
            status: the HTTP status code.
            headers: names and values.
            framing: whole lines, each with its end, that say where the body ends and whether the connection does.
            defaults: the server's own headers, the date among them; a new list replaces the one of the last second.

        Raises:
            RuntimeError: a line break in a name or value, which would be a header or an answer of somebody else's.
        """
        if defaults is not self._defaults:
            self._defaults = defaults
            self._starts.clear()
        start = self._starts.get(status)
        if start is None:
            start = STATUS_LINE[status] + b"".join([b"%b: %b\r\n" % header for header in defaults])
            self._starts[status] = start
        return b"".join((start, laid(headers), framing, b"\r\n"))
