"""One HTTP/1.1 answer after another, read by httptools out of whatever pieces the network cuts it into."""

import re
from collections.abc import Sequence
from math import inf

import httptools

from gateway.errors import UpstreamError, UpstreamInvalid, UpstreamUnreachable

MAX_HEAD_BYTES = 64 * 1024
"""Of a head with all 1xx heads before it, and of framing in the body (chunk extensions, trailers) between two bytes."""

MAX_HEADERS = 256

_FIRST_FINAL_STATUS = 200
_SWITCHING_PROTOCOLS = 101
_KEEPING = "keep-alive"
_TELLING = frozenset({"content-length", "transfer-encoding", _KEEPING})
"""The fields that tell where the body ends, and for how long the connection stays."""
_KEPT = re.compile(r"(?i)(?:^|[,; ])timeout ?= ?([0-9]{1,6})")
_TRUSTED_SHARE = 0.8
"""Of the time that an upstream keeps an idle connection: a request is under way for a while, and clocks differ."""
_VERSIONS = frozenset({"1.0", "1.1"})


class _Stop(Exception):
    """Stops the parser from inside a callback; what it means is noted before."""


class AnswerReader:
    """Parses the answers of one connection; ``expect`` begins the next.

    Attributes:
        status: of the final answer; 0 until its head is complete.
        headers: of the final answer, names in lower case.
        pieces: what has come of the body, to be taken out by the owner.
        complete: the answer has come to its end.
        keep_alive: of a complete answer: another may follow on the connection.
        begun: at least a byte has come.
        kept_s: for how long the upstream keeps the connection idle, less a margin, where it says so: ``Keep-Alive:
            timeout=5`` (RFC 2068, section 19.7.1.1). Infinite where it does not.
        fault: why no more can come, once something is wrong; what is in ``pieces`` came before it.
    """

    __slots__ = (
        "__weakref__",
        "_bare_bytes",
        "_framed",
        "_parser",
        "_raw_headers",
        "begun",
        "complete",
        "fault",
        "headers",
        "keep_alive",
        "kept_s",
        "on_body",
        "pieces",
        "status",
    )

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.on_body = self.pieces.append  # httptools calls it for each piece: no Python frame in between
        self.expect()
        self._parser = httptools.HttpResponseParser(self)

    def expect(self) -> None:
        """Forgets the answer before: the next byte belongs to a new one."""
        self.status = 0
        self.headers: Sequence[tuple[str, str]] = ()
        self.complete = self.keep_alive = self.begun = self._framed = False
        self.fault: UpstreamError | None = None
        self.pieces.clear()
        self._raw_headers: list[tuple[bytes, bytes]] = []
        self._bare_bytes = 0
        self.kept_s = inf

    def feed(self, data: bytes) -> bool:
        """Takes bytes as they came, and tells whether they bring anything that its owner may wait for.

        Bytes beyond the end of the answer take ``keep_alive`` away.
        """
        self.begun = True
        self._bare_bytes += len(data)
        status, count = self.status, len(self.pieces)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            if not isinstance(error.__context__, _Stop):
                raise
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.keep_alive = False
            if not self.complete:
                self._fail("what is no HTTP/1.1")
        if len(self.pieces) > count:
            self._bare_bytes = 0
            return True
        if self._bare_bytes > MAX_HEAD_BYTES and not self.complete:
            self._fail("a head or framing of more bytes than any answer needs")
        return self.complete or self.fault is not None or self.status != status

    def end(self) -> None:
        """The upstream will send no more, and says so: the end of an answer that has no other."""
        if self.status and not self._framed and self.fault is None:
            self.complete = True
        else:
            self.cut()

    def cut(self, cause: Exception | None = None) -> None:
        """The connection is gone."""
        if self.complete or self.fault is not None:
            return
        self.fault = UpstreamUnreachable(
            "the connection to the upstream broke in the middle of the answer"
            if self.status
            else "the upstream closed or broke the connection without an answer"
        )
        self.fault.__cause__ = cause

    def close(self) -> None:
        """No more bytes will come. The parser holds its reader: the two would wait for the garbage collector."""
        del self._parser

    # ---- called by httptools ----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A first byte: of the answer, of the one after a 1xx, or of one that nobody has asked for."""
        if self.complete:
            self.keep_alive = False
            raise _Stop

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head; or of the trailer, at which nobody looks."""
        self._raw_headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is there, and is judged."""
        status: int = self._parser.get_status_code()
        if status < _FIRST_FINAL_STATUS and status != _SWITCHING_PROTOCOLS:
            self._raw_headers.clear()
            return
        self.headers = [
            (name.lower().decode("latin-1"), value.strip().decode("latin-1")) for name, value in self._raw_headers
        ]
        for name, value in self.headers:
            if name not in _TELLING:
                continue
            if name == _KEEPING:
                self.kept_s = _kept_s(value)
            else:
                self._framed = True
                if name == "transfer-encoding" and value.lower() != "chunked":
                    self._stop("a transfer coding that was not asked for")
        if len(self.headers) > MAX_HEADERS or self._is_head_too_long():
            self._stop("a head of more bytes or fields than any answer needs")
        if status == _SWITCHING_PROTOCOLS or self._parser.get_http_version() not in _VERSIONS:
            self._stop("another protocol than HTTP/1.1")
        self.status = status

    def on_message_complete(self) -> None:
        """The end of the answer, or of a 1xx, after which it is still to come."""
        if self.status:
            self.complete = True
            self.keep_alive = self._parser.should_keep_alive()

    # ---- what is wrong ----------------------------------------------------------------------------------------------

    def _is_head_too_long(self) -> bool:
        if self._bare_bytes <= MAX_HEAD_BYTES:
            return False  # the usual case: all that has come, body and all, is less
        return sum(len(name) + len(value) for name, value in self._raw_headers) > MAX_HEAD_BYTES

    def _fail(self, what: str) -> None:
        if self.status:
            self.fault = UpstreamUnreachable(f"the answer broke in its middle: the upstream sent {what}")
        else:
            self.fault = UpstreamInvalid(f"the upstream sent {what}")

    def _stop(self, what: str) -> None:
        self._fail(what)
        raise _Stop


def _kept_s(value: str) -> float:
    found = _KEPT.search(value)
    return int(found[1]) * _TRUSTED_SHARE if found is not None else inf
