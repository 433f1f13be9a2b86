"""JSON values one after the other, each on a line of its own: how Ollama streams.

Lines end at LF, or at CRLF, which is the same; nothing is decoded, so that a cut inside a character cannot matter.
"""

from gateway.errors import UpstreamInvalid


class LineParser:
    """Turns bytes, cut anywhere, into lines.

    Args:
        max_line_bytes: the most that one line may hold.
    """

    __slots__ = ("_line", "_max_line_bytes")

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._line = bytearray()  # the unfinished line; grows in place, so that small cuts cost linear time

    @property
    def partial(self) -> bool:
        """Whether bytes of an unfinished line are pending."""
        return bool(self._line.strip())

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that ``data`` completes, without their ends; empty ones are none.

        Raises:
            UpstreamInvalid: a line is over the bound.
        """
        pieces = data.split(b"\n")
        rest = pieces.pop()
        if pieces and self._line:
            self._line += pieces[0]
            pieces[0] = bytes(self._line)
            self._line.clear()
        self._line += rest
        lines = [line for line in (piece.strip() for piece in pieces) if line]
        if max(len(self._line), *map(len, lines), 0) > self._max_line_bytes:
            raise UpstreamInvalid(f"the upstream sent a line of more than {self._max_line_bytes} bytes")
        return lines

    def rest(self) -> bytes:
        """What stands after the last line's end: a last line that was never ended, or nothing."""
        line = bytes(self._line).strip()
        self._line.clear()
        return line
