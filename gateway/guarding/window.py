"""One guard's look at a stream while it passes: as much of it is held back as a match can be long, and no more.

Events stay in their order, and none is added or lost: one goes on when it is known what all of its texts will be. A
match is final when no further text can change it, and then it is the one that a look at the whole text would find: what
a stream says does not depend on where it was cut.

A tool call's arguments are looked at once they are whole, for what runs a call waits until then anyway.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from gateway.guard import CannotSay, Span, Text, WindowGuard
from gateway.guarding.transcript import Transcript
from gateway.wire.stream_texts import Channel, Growth, Passing

_CONTEXT_CHARS = 1
"""What a pattern may want to see before the place where it begins."""


class Window:
    """Looks through ``guard`` at the events of one stream.

    Args:
        guard: finds what is to be replaced.
        hit: called for each thing that it finds; what it raises ends the stream.
        replaces: whether what is found is replaced.
        most_bytes: how much may be held back.
    """

    def __init__(self, guard: WindowGuard, *, hit: Callable[[], None], replaces: bool, most_bytes: int) -> None:
        self._guard = guard
        self._hit = hit
        self._replaces = replaces
        self._most_bytes = most_bytes
        self._channels: dict[Channel, _Text | _Arguments] = {}
        self._held: deque[Passing] = deque()
        self._held_bytes = 0

    def feed(self, passing: Passing) -> list[Passing]:
        """Takes an event; returns those that go on now.

        Raises:
            CannotSay: more would have to be held back than may be.
        """
        self._held.append(passing)
        self._held_bytes += len(passing.data)
        for growth in passing.growths:
            self._take(growth)
        for channel in passing.over:
            self._finish(channel)
        if passing.ends_all:
            self._finish(())
        if self._held_bytes > self._most_bytes:
            raise CannotSay(f"more than {self._most_bytes} bytes would be held back")
        return list(self._released())

    def end(self) -> list[Passing]:
        """There is nothing more: what is held back goes on."""
        self._finish(())
        return list(self._released())

    def let_through(self) -> list[Passing]:
        """What is held back goes on as it came, but for what is decided already."""
        for passing in self._held:
            for growth in passing.growths:
                growth.new = growth.old if growth.new is None else growth.new
        self._channels.clear()
        return list(self._released())

    def _take(self, growth: Growth) -> None:
        if growth.channel is None:
            alone = _Arguments(self._found) if growth.kind == "arguments" else _Text(self._found, None)
            alone.grow(growth)
            alone.finish()
            return
        known = self._channels.get(growth.channel)
        if known is None:
            bound = self._guard.longest_chars
            known = _Arguments(self._found) if growth.kind == "arguments" else _Text(self._found, bound)
            self._channels[growth.channel] = known
        known.grow(growth)

    def _finish(self, beginning: Channel) -> None:
        over = [channel for channel in self._channels if channel[: len(beginning)] == beginning]
        for channel in over:
            self._channels.pop(channel).finish()

    def _found(self, text: str, begin: int, limit: int) -> list[Span]:
        """What the guard finds that begins before ``limit``."""
        spans = [span for span in self._guard.spans(text, begin) if span.begin < limit]
        for _ in spans:
            self._hit()
        return spans if self._replaces else []

    def _released(self) -> Iterator[Passing]:
        while self._held and self._held[0].decided:
            passing = self._held.popleft()
            self._held_bytes -= len(passing.data)
            passing.settle()
            yield passing


Find = Callable[[str, int, int], list[Span]]


class _Text:
    """A text that grows. Offsets are characters from its beginning; ``_buffer`` begins at ``_base``.

    ``longest_chars`` bounds a match; ``None`` where the text does not grow, and is decided at its end.
    """

    __slots__ = ("_base", "_buffer", "_end", "_find", "_longest_chars", "_settled", "_spans", "_waiting")

    def __init__(self, find: Find, longest_chars: int | None) -> None:
        self._find = find
        self._longest_chars = longest_chars
        self._buffer = ""
        self._base = self._end = self._settled = 0
        self._spans: deque[Span] = deque()
        self._waiting: deque[tuple[Growth, int, int]] = deque()

    def grow(self, growth: Growth) -> None:
        """Takes more of the text."""
        begin, self._end = self._end, self._end + len(growth.old)
        self._buffer += growth.old
        self._waiting.append((growth, begin, self._end))
        if self._longest_chars is not None:
            self._settle(self._end - self._longest_chars)

    def finish(self) -> None:
        """There is no more of it."""
        self._settle(self._end + 1)

    def _settle(self, limit: int) -> None:
        """Decides all that begins before ``limit``: what comes after cannot change it any more."""
        if limit > self._settled:
            found = self._find(self._buffer, self._settled - self._base, limit - self._base)
            self._spans.extend(Span(begin + self._base, end + self._base, to) for begin, end, to in found)
            self._settled = max(limit, self._spans[-1].end if found else 0)
        while self._waiting and self._waiting[0][2] <= self._settled:
            growth, begin, end = self._waiting.popleft()
            growth.new = replaced(growth.old, begin, self._spans)
            while self._spans and self._spans[0].end <= end:
                self._spans.popleft()
        kept_from = max(self._settled - _CONTEXT_CHARS, self._base)
        self._buffer, self._base = self._buffer[kept_from - self._base :], kept_from


class _Arguments:
    """A call's arguments, which are looked at when they are whole."""

    __slots__ = ("_find", "_pieces")

    def __init__(self, find: Find) -> None:
        self._find = find
        self._pieces: list[Growth] = []

    def grow(self, growth: Growth) -> None:
        """Takes more of them."""
        self._pieces.append(growth)

    def finish(self) -> None:
        """There is no more."""
        whole = "".join([piece.old for piece in self._pieces])
        transcript = Transcript([Text(whole, "arguments", "assistant")])
        texts = [replaced(it.text, 0, self._find(it.text, 0, len(it.text) + 1)) for it in transcript.texts]
        spread(self._pieces, whole, transcript.rewritten(texts).get(0, whole))


def replaced(text: str, begin: int, spans: Iterable[Span]) -> str:
    """``text``, which begins at the offset ``begin``, after ``spans``; each goes where it begins."""
    out: list[str] = []
    at, end = begin, begin + len(text)
    for span in spans:
        if span.begin >= end:
            break
        if span.begin >= begin:
            out += (text[at - begin : span.begin - begin], span.instead)
        at = max(at, min(span.end, end))
    out.append(text[at - begin :])
    return "".join(out)


def spread(pieces: Sequence[Growth], old: str, new: str) -> None:
    """Decides the pieces of ``old``, so that they say ``new`` together: what is the same stays where it is."""
    same = 0
    shortest = min(len(old), len(new))
    while same < shortest and old[same] == new[same]:
        same += 1
    behind = 0
    while behind < shortest - same and old[-1 - behind] == new[-1 - behind]:
        behind += 1
    changes = [Span(same, len(old) - behind, new[same : len(new) - behind])] if old != new else []
    begin = 0
    for number, piece in enumerate(pieces):
        end = begin + len(piece.old)
        last = number == len(pieces) - 1
        own = changes if not changes or changes[0].begin < end or not last else []
        piece.new = replaced(piece.old, begin, own)
        if last and changes and changes[0].begin >= end:  # what is new comes after all of the old
            piece.new += changes[0].instead
        begin = end
