"""A stream as guards see it: its events, each with the texts that grow by it, whatever format it is in.

A text of a stream grows in a channel: the text of a choice, the arguments of a call. An event says what each channel
grows by, and which of them are over. Some say a text again that was there before: it stands alone.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from gateway.wire.json_edits import Path, with_values
from gateway.wire.places import Place, beside
from gateway.wire.sse import SseEvent, frame

Channel = tuple[Any, ...]
"""Which text: the choice, block or item, then what of it. The beginning of a channel stands for all that share it."""

_ENCODE = msgspec.json.Encoder().encode
_TREE = msgspec.json.Decoder()


class Growth:
    """What one event adds to a channel: ``old`` is what it came with, ``new`` what goes out, ``None`` until decided.

    ``channel`` is ``None`` for a text that stands alone; ``is_json`` as in ``Place``.
    """

    __slots__ = ("channel", "is_json", "kind", "new", "old", "path")

    def __init__(
        self, path: Path, old: str, kind: str, channel: Channel | None = None, *, is_json: bool = False
    ) -> None:
        self.path = path
        self.old = old
        self.kind = kind
        self.channel = channel
        self.is_json = is_json
        self.new: str | None = None

    @property
    def changed(self) -> bool:
        """Whether it goes out as something else than it came."""
        return self.new is not None and self.new != self.old

    def value(self) -> bytes:
        """What goes out, as JSON."""
        text = self.old if self.new is None else self.new
        return text.encode() if self.is_json else _ENCODE(text)


class Passing:
    """An event on its way, with its ``growths``; ``over`` are the channels that end with it, ``ends_all`` if all do.

    ``is_line`` tells that its stream is of lines, and not of server-sent events. ``note`` is its format's own, so that
    nobody has to look into it twice.
    """

    __slots__ = ("data", "ends_all", "growths", "is_line", "name", "note", "over")

    def __init__(
        self,
        event: SseEvent,
        growths: Sequence[Growth] = (),
        *,
        over: Sequence[Channel] = (),
        ends_all: bool = False,
        is_line: bool = False,
        note: Any = None,
    ) -> None:
        self.name = event.event
        self.data = event.data
        self.growths = growths
        self.over = over
        self.ends_all = ends_all
        self.is_line = is_line
        self.note = note

    @property
    def decided(self) -> bool:
        """Whether it is known what all of its texts will be."""
        return all(growth.new is not None for growth in self.growths)

    @property
    def shows(self) -> bool:
        """Whether there is any text in it."""
        return any(growth.old for growth in self.growths)

    def settle(self) -> None:
        """Puts what was decided into the event: the next one who looks sees it as if it had come so."""
        changed = {growth.path: growth.value() for growth in self.growths if growth.changed}
        if changed:
            tree = _TREE.decode(self.data)
            told_twice = {path: value for known in changed for path, value in beside(tree, known)}
            self.data = with_values(self.data, told_twice | changed)
        for growth in self.growths:
            growth.old, growth.new = growth.old if growth.new is None else growth.new, None

    def framed(self) -> bytes:
        """The event as it goes out."""
        if self.is_line:
            return self.data + b"\n"
        return frame(self.data, self.name)


class EventParser(Protocol):
    """Takes a stream apart."""

    def feed(self, data: bytes) -> list[SseEvent]:
        """The events that ``data`` completes."""
        ...


class StreamTexts(Protocol):
    """Finds the texts in the events of one stream, in their order, and knows how to end it early."""

    def passing(self, event: SseEvent) -> Passing:
        """The event with its texts."""
        ...

    def went(self, passing: Passing) -> None:
        """The event has gone out to the client."""
        ...

    def blocked(self) -> bytes:
        """The events that end a stream whose rest the client does not get, after those that ``went``."""
        ...


def standing_alone(places: Sequence[Place]) -> list[Growth]:
    """Texts that are in an event whole."""
    return [Growth(place.path, place.text, place.kind, is_json=place.is_json) for place in places]
