"""Server-sent events on bytes, after the WHATWG rules (HTML Living Standard, "Server-sent events").

Lines end at CR, LF and CRLF and nowhere else, so that U+2028 or a form feed inside JSON is only text. Nothing is
decoded: a cut inside a character cannot matter.
"""

import msgspec

from gateway.errors import UpstreamInvalid

_BOM = b"\xef\xbb\xbf"
_COLON, _CR, _LF = b":\r\n"  # numbers: whether bytes are in others, Python tries as a number first, and raises


class SseEvent(msgspec.Struct, frozen=True, gc=False):
    """One event: its name, empty where none was given, and its data lines joined by LF."""

    event: bytes
    data: bytes


class SseParser:
    """Turns bytes, cut anywhere, into events.

    Args:
        max_event_bytes: the most that one event, or one unfinished line, may hold.
    """

    __slots__ = ("_after_cr", "_at_start", "_data", "_event", "_event_bytes", "_line", "_max_event_bytes")

    def __init__(self, max_event_bytes: int) -> None:
        self._max_event_bytes = max_event_bytes
        self._line = bytearray()  # the unfinished line; grows in place, so that small cuts cost linear time
        self._data: list[bytes] = []
        self._event = b""
        self._event_bytes = 0
        self._at_start = True
        self._after_cr = False

    @property
    def partial(self) -> bool:
        """Whether bytes of an unfinished event are pending. An unfinished comment is none."""
        return bool(self._data or self._event or (self._line and self._line[0] != _COLON))

    @property
    def idle(self) -> bool:
        """Whether the next byte begins a new line of a new event, so that whole events may be taken as they are."""
        return not (self._at_start or self._after_cr or self._line or self._data or self._event)

    def usual(self, data: bytes) -> bytes:
        """What one whole event says, where ``data`` is that, without a name and on one line; else empty, and not taken.

        ``feed`` would give the same, for more work.
        """
        pending = self._after_cr or self._line or self._data or self._event
        if pending or len(data) > self._max_event_bytes:
            return b""
        line, _, empty = data.partition(b"\n")
        if empty != b"\n" or not line.startswith(b"data: ") or line.find(b"\r") >= 0:
            return b""
        self._at_start = False
        return line[len(b"data: ") :]

    def feed(self, data: bytes) -> list[SseEvent]:
        """The events that ``data`` completes.

        Raises:
            UpstreamInvalid: an event is over the bound.
        """
        if not data:
            return []
        lines = self._with_lf_only(data).split(b"\n")
        rest = lines.pop()
        events: list[SseEvent] = []
        if lines:
            if self._line:
                self._line += lines[0]
                lines[0] = bytes(self._line)
                self._line.clear()
            if self._at_start:
                lines[0] = lines[0].removeprefix(_BOM)
                self._at_start = False
            for line in lines:
                if line:
                    self._take(line)
                elif self._data or self._event:
                    self._dispatch(events)
        if rest:
            self._line += rest
            if len(self._line) + self._event_bytes > self._max_event_bytes:
                raise self._too_long()
        return events

    def _with_lf_only(self, data: bytes) -> bytes:
        """The bytes with every line end as LF; a CRLF that was cut in two counts once."""
        if self._after_cr:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if _CR in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _take(self, line: bytes) -> None:
        """One line that is not empty. Comments, and fields other than ``data`` and ``event``, mean nothing here."""
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name == b"event":
            self._event = value.removeprefix(b" ")
        else:
            return
        self._event_bytes += len(line)
        if self._event_bytes > self._max_event_bytes:
            raise self._too_long()

    def _dispatch(self, events: list[SseEvent]) -> None:
        """An empty line ends the event; one without data is dropped."""
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            events.append(SseEvent(self._event, data))
            self._data.clear()
        self._event = b""
        self._event_bytes = 0

    def _too_long(self) -> UpstreamInvalid:
        return UpstreamInvalid(f"the upstream sent an event of more than {self._max_event_bytes} bytes")


def frame(data: bytes, name: bytes = b"") -> bytes:
    """An event, ready to send: each line of ``data`` on a ``data:`` line of its own. An empty ``name`` is none."""
    if _LF in data:
        data = data.replace(b"\n", b"\ndata: ")
    return b"event: %b\ndata: %b\n\n" % (name, data) if name else b"data: %b\n\n" % data
