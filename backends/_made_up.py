"""Made-up answers as wire bytes: whole or in events, whole or spoiled by a fault. No time passes here."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import msgspec

from backends._faults import Fault
from gateway.errors import UpstreamFailed
from gateway.price import Usage
from gateway.types import Operation
from gateway.wire.openai_answer import Answered, StreamWriter, whole_answer
from gateway.wire.openai_embeddings import embeddings_answer
from gateway.wire.openai_errors import error_body, error_event
from gateway.wire.openai_usage import usage_object

_VECTOR = [0.6, 0.0, -0.8]

UsageAt = Literal["given", "in_last_chunk", "missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeUp:
    """One answer: every one of its ``n`` choices is ``words``, which end for ``reason``; or ``n`` times one vector."""

    operation: Operation
    id: str
    model: str
    created_unix_s: int
    words: tuple[str, ...]
    reason: str
    n: int
    usage: Usage
    usage_at: UsageAt

    def events(self) -> Iterator[bytes]:
        """The answer as a stream, one word an event."""
        writer = StreamWriter(self.operation, self.id, self.model, self.created_unix_s)
        for choice in range(self.n):
            first = writer.opening(choice)  # empty where the format has none, so it comes with the first word
            for word in self.words:
                yield first + writer.text(choice, word)
                first = b""
            finish = writer.finish(choice, self.reason)
            if self.usage_at == "in_last_chunk" and choice == self.n - 1:
                finish = b'%b,"usage":%b}\n\n' % (finish.rstrip()[:-1], msgspec.json.encode(usage_object(self.usage)))
            yield finish
        if self.usage_at == "given":
            yield writer.usage(self.usage)
        yield writer.done()

    def halves(self) -> Iterator[bytes]:
        """The answer as one body, in two pieces."""
        body = self._body()
        if self.usage_at == "missing":
            fields = msgspec.json.decode(body)
            del fields["usage"]
            body = msgspec.json.encode(fields)
        middle = len(body) // 2
        yield body[:middle]
        yield body[middle:]

    def _body(self) -> bytes:
        if self.operation is Operation.EMBEDDING:
            return embeddings_answer(self.model, [_VECTOR] * self.n, self.usage.prompt_tokens)
        choices = [Answered("".join(self.words), self.reason)] * self.n
        return whole_answer(self.operation, self.id, self.model, self.created_unix_s, choices, self.usage)


def words_of(text: str, tokens: int) -> tuple[str, ...]:
    """``tokens`` words of ``text``, which begins anew as often as it takes; all but the first with a space before."""
    words = itertools.islice(itertools.cycle(text.split()), tokens)
    return tuple(word if number == 0 else f" {word}" for number, word in enumerate(words))


def spoiled(pieces: Iterator[bytes], fault: Fault | None, *, streamed: bool) -> Iterator[bytes]:
    """The pieces up to where ``fault`` spoils them, and what comes in their place."""
    if fault is None:
        yield from pieces
        return
    if fault.kind == "garbage":
        yield b"<html>\n\ndata: {\n\n"
    if fault.kind in {"garbage", "empty"}:
        return
    yield from itertools.islice(pieces, fault.after_chunks)
    if fault.kind == "error":
        error = UpstreamFailed("this error is made up", upstream_code=fault.code)
        yield error_event(error) if streamed else error_body(error)
    elif fault.kind == "reset" and (broken := next(pieces, None)):
        yield broken[: len(broken) // 2]


class Cutter:
    """Cuts pieces anew, into ``size`` bytes each; 0 leaves them as they are."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._rest = b""

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The pieces that are whole now."""
        if self._size == 0:
            yield piece
            return
        self._rest += piece
        while len(self._rest) >= self._size:
            cut, self._rest = self._rest[: self._size], self._rest[self._size :]
            yield cut

    def rest(self) -> Iterator[bytes]:
        """What is left at the end."""
        if self._rest:
            yield self._rest
