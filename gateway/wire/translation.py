"""Between a provider's format and a client's: a reader makes deltas of bytes, a writer makes bytes of deltas.

One reader for each format that providers answer in, one writer for each that clients ask in. Both are pure and
incremental: what came in one read goes out in one write. A backend whose upstream does not speak the client's format
puts ``TranslatingSink`` between the upstream and its sink, so that nobody else notices.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from gateway.errors import UpstreamError
from gateway.ports import AT_ONCE, Sink
from gateway.types import ChatRequest, Finish
from gateway.wire.deltas import Delta


class AnswerReader(Protocol):
    """Reads one answer of a provider, streamed or whole, as it was made for.

    ``error`` is set where an error arrived in place of the answer or inside it.
    """

    error: UpstreamError | None

    def feed(self, data: bytes) -> list[Delta]:
        """What these bytes say, which the upstream may have cut anywhere. A whole answer says all at ``end``.

        After an error it returns what came before, sets ``error`` and ignores the rest.

        Raises:
            UpstreamInvalid: they are not what the format says, or an event is too long.
        """
        ...

    def end(self) -> list[Delta]:
        """The upstream closed cleanly: what is still owed, ``AnswerEnd`` last where it has not come yet.

        Raises:
            UpstreamTruncated: the answer is not complete.
            UpstreamInvalid: there was no answer at all.
        """
        ...


class AnswerWriter(Protocol):
    """Writes one answer for a client, streamed or whole, as it was made for."""

    def write(self, deltas: Sequence[Delta]) -> bytes:
        """The bytes that are due, possibly none. A whole answer is due at ``AnswerEnd``.

        Raises:
            UpstreamInvalid: the client's format has no place for something in it.
        """
        ...


ReaderOf = Callable[[bool], AnswerReader]
"""Makes a reader of a streamed answer where its argument is true, else of a whole one."""

WriterOf = Callable[[ChatRequest, bool], AnswerWriter]
"""Makes a writer of the answer to a request: streamed where the second argument is true, else whole."""


class TranslatingSink:
    """A ``Sink`` that takes an upstream's format and pushes the client's into the sink behind it.

    Args:
        sink: the client's side of the attempt.
        request: what the client asked for, in its own format.
        reader_of: makes the reader of what the upstream answers.
        writer_of: makes the writer of the client's format.
    """

    __slots__ = ("_reader", "_reader_of", "_request", "_sink", "_writer", "_writer_of")

    def __init__(self, sink: Sink, request: ChatRequest, reader_of: ReaderOf, writer_of: WriterOf) -> None:
        self._sink = sink
        self._request = request
        self._reader_of = reader_of
        self._writer_of = writer_of
        self._reader: AnswerReader | None = None
        self._writer: AnswerWriter | None = None

    def begin(self, *, streamed: bool) -> None:
        """See ``Sink.begin``."""
        self._sink.begin(streamed=streamed)
        self._reader = self._reader_of(streamed)
        self._writer = self._writer_of(self._request, streamed)

    def push(self, data: bytes) -> Awaitable[None]:
        """See ``Sink.push``."""
        reader, writer = self._begun()
        deltas = reader.feed(data)
        due = writer.write(deltas) if deltas else b""
        if reader.error is not None:
            return self._end_with(due, reader.error)
        return self._sink.push(due) if due else AT_ONCE

    async def end(self) -> Finish:
        """See ``Sink.end``."""
        reader, writer = self._begun()
        deltas = reader.end()
        due = writer.write(deltas) if deltas else b""
        if reader.error is not None:
            await self._end_with(due, reader.error)
        elif due:
            await self._sink.push(due)
        return await self._sink.end()

    async def _end_with(self, due: bytes, error: UpstreamError) -> None:
        """What came before an error goes out before it is told."""
        if due:
            await self._sink.push(due)
        raise error

    def _begun(self) -> tuple[AnswerReader, AnswerWriter]:
        if self._reader is None or self._writer is None:
            raise RuntimeError("a sink takes nothing before it begins")
        return self._reader, self._writer
