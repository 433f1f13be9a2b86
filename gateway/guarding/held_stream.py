"""A stream that is held until its end: its events put together as texts, and the texts back into the events."""

from collections.abc import Sequence

from gateway.guard import Text
from gateway.guarding.chained_pieces import resaid_pieces
from gateway.guarding.transcript import Transcript
from gateway.guarding.window import spread
from gateway.wire.spoken_stream_texts import SPOKEN
from gateway.wire.stream_texts import Channel, Growth, Passing


class HeldStream:
    """The texts of ``events``. A text that is told twice is one text."""

    __slots__ = ("_again", "_events", "_grown", "transcript")

    def __init__(self, events: Sequence[Passing]) -> None:
        self._events = events
        self._grown: list[list[Growth]] = []
        self._again: dict[int, list[Growth]] = {}
        wholes = self._wholes()
        self.transcript = Transcript(wholes)

    def rewrite(self, texts: Sequence[str]) -> None:
        """From now on the events say what the transcript does once it reads ``texts``."""
        changed = self.transcript.rewritten(texts)
        for at, new in changed.items():
            pieces = self._grown[at]
            olds = [piece.old for piece in pieces]
            if (pieces[0].channel or ())[:1] == SPOKEN:
                for piece, resaid in zip(pieces, resaid_pieces(olds, [""] * len(olds), new), strict=True):
                    piece.new = resaid
            else:
                spread(pieces, "".join(olds), new)
            for growth in self._again.get(at, ()):
                growth.new = new
        for event in self._events:
            event.settle()

    def _wholes(self) -> list[Text]:
        by_channel: dict[Channel, int] = {}
        alone: list[Growth] = []
        for growth in (growth for event in self._events for growth in event.growths):
            if growth.channel is None:
                alone.append(growth)
                continue
            at = by_channel.setdefault(growth.channel, len(self._grown))
            if at == len(self._grown):
                self._grown.append([])
            self._grown[at].append(growth)
        wholes = [Text("".join([piece.old for piece in pieces]), pieces[0].kind, "assistant") for pieces in self._grown]
        known = {(whole.kind, whole.text): at for at, whole in enumerate(wholes)}
        for growth in alone:
            at = known.setdefault((growth.kind, growth.old), len(wholes))
            if at == len(wholes):
                wholes.append(Text(growth.old, growth.kind, "assistant"))
                self._grown.append([growth])
            else:
                self._again.setdefault(at, []).append(growth)
        return wholes
