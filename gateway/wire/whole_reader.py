"""Reads an answer that comes whole: what it says is known at its end."""

from collections.abc import Callable

from gateway.errors import UpstreamError
from gateway.wire.deltas import Delta


class WholeReader:
    """See ``AnswerReader``: collects the body, which ``read`` makes deltas of, or raises what is wrong with it."""

    def __init__(self, read: Callable[[bytes], list[Delta]]) -> None:
        self.error: UpstreamError | None = None
        self._read = read
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> list[Delta]:
        """See ``AnswerReader.feed``."""
        self._pieces.append(data)
        return []

    def end(self) -> list[Delta]:
        """See ``AnswerReader.end``."""
        return self._read(b"".join(self._pieces))
