"""One HTTP/1.1 answer after another, read by httptools out of whatever pieces the network cuts it into."""

import re
from collections.abc import Mapping
from math import inf
from types import MappingProxyType

import httptools

from gateway.errors import UpstreamError, UpstreamInvalid, UpstreamUnreachable

MAX_HEAD_BYTES = 64 * 1024
"""Of a head with all 1xx heads before it, and of framing in the body (chunk extensions, trailers) between two bytes."""

MAX_HEADERS = 256

_FIRST_FINAL_STATUS = 200
_SWITCHING_PROTOCOLS = 101
_LENGTH, _CODING, _KEEPING = b"content-length", b"transfer-encoding", b"keep-alive"
"""The fields that tell where the body ends, and for how long the connection stays."""
_KEPT = re.compile(rb"(?i)(?:^|[,; ])timeout ?= ?([0-9]{1,6})")
_TRUSTED_SHARE = 0.8
"""Of the time that an upstream keeps an idle connection: a request is under way for a while, and clocks differ."""
_VERSIONS = frozenset({"1.0", "1.1"})
_NO_FIELDS: Mapping[bytes, bytes] = MappingProxyType({})


class _Stop(Exception):
    """Stops the parser from inside a callback; what it means is noted before."""


class AnswerReader:
    """Parses the answers of one connection; ``expect`` begins the next.

    Attributes:
        status: of the final answer; 0 until its head is complete.
        fields: the head of the final answer as it came.
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
        "_named",
        "_parser",
        "begun",
        "complete",
        "fault",
        "fields",
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
        self.fields: list[tuple[bytes, bytes]] = []
        self._named: Mapping[bytes, bytes] = _NO_FIELDS
        self.complete = self.keep_alive = self.begun = self._framed = False
        self.fault: UpstreamError | None = None
        self.pieces.clear()
        self._bare_bytes = 0
        self.kept_s = inf

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The fields of the head, names in lower case, for who wants to see them all."""
        return [(name.lower().decode("latin-1"), value.strip().decode("latin-1")) for name, value in self.fields]

    def header(self, name: str) -> str:
        """The value of a field, by its name in lower case; of several the last one's, empty where there is none."""
        value = self._named.get(name.encode("latin-1"))
        return "" if value is None else value.strip().decode("latin-1")

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
        if not self.status:
            self.fields.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is there, and is judged."""
        status: int = self._parser.get_status_code()
        if status < _FIRST_FINAL_STATUS and status != _SWITCHING_PROTOCOLS:
            self.fields.clear()
            return
        named = self._named = {name.lower(): value for name, value in self.fields}
        if _CODING in named:
            self._framed = True
            if not all(value.strip().lower() == b"chunked" for name, value in self.fields if name.lower() == _CODING):
                self._stop("a transfer coding that was not asked for")
        elif _LENGTH in named:
            self._framed = True
        if _KEEPING in named:
            self.kept_s = _kept_s(named[_KEEPING])
        if len(self.fields) > MAX_HEADERS or self._is_head_too_long():
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
        return sum(len(name) + len(value) for name, value in self.fields) > MAX_HEAD_BYTES

    def _fail(self, what: str) -> None:
        if self.status:
            self.fault = UpstreamUnreachable(f"the answer broke in its middle: the upstream sent {what}")
        else:
            self.fault = UpstreamInvalid(f"the upstream sent {what}")

    def _stop(self, what: str) -> None:
        self._fail(what)
        raise _Stop


def _kept_s(value: bytes) -> float:
    found = _KEPT.search(value)
    return int(found[1]) * _TRUSTED_SHARE if found is not None else inf
