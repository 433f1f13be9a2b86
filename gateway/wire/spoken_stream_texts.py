"""The texts in the stream of a transcript: deltas grow, segments go on from each other, and the end tells all again."""

import msgspec

from gateway.errors import GuardBlocked
from gateway.types import ChatRequest
from gateway.wire.json_edits import Path
from gateway.wire.openai_errors import error_event
from gateway.wire.spoken_places import chains
from gateway.wire.sse import SseEvent
from gateway.wire.stream_texts import Channel, Growth, Passing
from gateway.wire.upstream_json import opened_object

_DELTA, _SEGMENT, _DONE = "transcript.text.delta", "transcript.text.segment", "transcript.text.done"
_ENCODE = msgspec.json.Encoder().encode
_BLANK = " "
SPOKEN: Channel = ("spoken",)
"""All channels of a transcript: a piece of one keeps its place when others change, for it has a time and a speaker."""


class _Segment(Growth):
    """A segment's text, with the blank behind it that keeps its last word apart from the next one's first."""

    __slots__ = ("_behind",)

    def __init__(self, path: Path, text: str) -> None:
        self._behind = "" if text.endswith(_BLANK) else _BLANK
        super().__init__(path, text + self._behind, "text", (*SPOKEN, "segments"))

    def value(self) -> bytes:
        """See ``Growth.value``."""
        return _ENCODE((self.old if self.new is None else self.new).removesuffix(self._behind))


class SpokenStreamTexts:
    """See ``StreamTexts``. What other events say stands alone."""

    __slots__ = ()

    def __init__(self, request: ChatRequest) -> None:
        del request  # nothing in it says how to end a stream

    def passing(self, event: SseEvent) -> Passing:
        """See ``StreamTexts.passing``."""
        if event.data.strip() == b"[DONE]":
            return Passing(event, ends_all=True)
        fields = opened_object(event.data)
        kind = fields.get("type")
        growths: list[Growth] = []
        for chain in chains(fields):
            for path, text in zip(chain.paths, chain.pieces, strict=True):
                if kind == _DELTA and path == ("delta",):
                    growths.append(Growth(path, text, "text", (*SPOKEN, "text")))
                elif kind == _SEGMENT and path == ("text",):
                    growths.append(_Segment(path, text))
                else:
                    growths.append(Growth(path, text, "text"))
        return Passing(event, growths, ends_all=kind == _DONE)

    def went(self, passing: Passing) -> None:
        """See ``StreamTexts.went``: an end needs to know nothing of what was before."""

    def blocked(self) -> bytes:
        """See ``StreamTexts.blocked``: transcripts have no end of a filter's, so that an error says it."""
        return error_event(GuardBlocked("a guard does not let the rest of the transcript pass"))
