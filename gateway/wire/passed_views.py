"""Looks at answers that are passed on: as JSON, as events, as text, or as bytes that nobody here can read."""

import re

import msgspec

from gateway.errors import UpstreamInvalid, UpstreamTruncated
from gateway.price import Usage
from gateway.types import ChatRequest
from gateway.units import Units
from gateway.wire.openai_whole import opened
from gateway.wire.passed_usage import PassedAnswer, usage_said
from gateway.wire.sse import SseEvent, SseParser
from gateway.wire.stream_look import StreamLook
from gateway.wire.upstream_codes import error_inside
from gateway.wire.whole_look import WholeLook

_ANSWER = msgspec.json.Decoder(PassedAnswer)
_NO_UNITS = Units()
_DONE = b"[DONE]"
_LAST = (".done", ".completed")
"""How the type of the event ends that ends a stream of speech, of a transcript, of a picture."""
_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r)(?:\r\n|\n|\r)")
_LONGEST_BLANK_LINE = 4


def units_of(request: ChatRequest) -> Units:
    """What is known of a request beforehand."""
    return request.units or _NO_UNITS


class PassedWhole(WholeLook):
    """See ``WholeView``: an answer in JSON, of any shape."""

    __slots__ = ("_asked",)

    def __init__(self, request: ChatRequest) -> None:
        super().__init__()
        self._asked = units_of(request)

    def take(self, body: bytes) -> bytes:
        """See ``WholeView.take``: what is no object, or an error, is no answer."""
        answer = opened(body, _ANSWER)
        self.usage = usage_said(self._asked, answer)
        self.model = answer.model if isinstance(answer.model, str) else ""
        return body


class PassedText(WholeLook):
    """See ``WholeView``: subtitles or plain text. It says nothing of what it took, and may well be empty."""

    __slots__ = ("_asked",)

    def __init__(self, request: ChatRequest) -> None:
        super().__init__()
        self._asked = units_of(request)

    def take(self, body: bytes) -> bytes:
        """See ``WholeView.take``."""
        self.usage = Usage(units=self._asked)
        return body


class _Passing(StreamLook):
    """The fields of a ``StreamView``; what fills them is below."""

    __slots__ = ("_asked",)

    def __init__(self, request: ChatRequest) -> None:
        self._asked = units_of(request)
        super().__init__()


class PassedBytes(_Passing):
    """See ``StreamView``: sound, or anything else that is no text. Its end is the connection's to tell."""

    __slots__ = ()

    def feed(self, data: bytes) -> bytes:
        """See ``StreamView.feed``."""
        self.visible = self.visible or bool(data)
        self.output_bytes += len(data)
        return data

    def end(self) -> bytes:
        """See ``StreamView.end``."""
        if not self.visible:
            raise UpstreamInvalid("the upstream sent an empty answer")
        self.done = True
        self.usage = Usage(units=self._asked)
        return b""


class PassedEvents(_Passing):
    """See ``StreamView``: events go on as they came, comments and all, each when it is whole.

    A stream is over with an event that says so (``speech.audio.done``, ``image_generation.completed``) or with
    ``[DONE]``. Of several pictures each has its own.
    """

    __slots__ = ("_events", "_looked_bytes", "_max_event_bytes", "_parser", "_pending", "_pictures")

    def __init__(self, request: ChatRequest, *, max_event_bytes: int) -> None:
        super().__init__(request)
        self._parser = SseParser(max_event_bytes)
        self._max_event_bytes = max_event_bytes
        self._pending = bytearray()
        self._looked_bytes = 0
        self._events = 0
        self._pictures = 0

    def feed(self, data: bytes) -> bytes:
        """See ``StreamView.feed``."""
        if self.error is not None:
            return b""
        self._pending += data
        passed: list[bytes] = []
        while (blank := _BLANK_LINE.search(self._pending, self._looked_bytes)) is not None:
            block = bytes(self._pending[: blank.end()])
            del self._pending[: blank.end()]
            self._looked_bytes = 0
            if not self._is_well(block):
                self._pending.clear()
                break
            passed.append(block)
        self._looked_bytes = max(len(self._pending) - _LONGEST_BLANK_LINE, 0)
        if len(self._pending) > self._max_event_bytes:
            raise UpstreamInvalid(f"the upstream sent an event of more than {self._max_event_bytes} bytes")
        return b"".join(passed)

    def end(self) -> bytes:
        """See ``StreamView.end``: a last event may lack its blank line."""
        if self.error is not None:
            return b""
        rest = bytes(self._pending)
        self._pending.clear()
        if rest and not self._is_well(rest + b"\n\n") and self.error is not None:
            raise self.error
        if not self._events:
            raise UpstreamInvalid("the upstream closed its stream without an answer")
        if not self.done:
            raise UpstreamTruncated("the upstream closed its stream before the answer was complete")
        return rest

    def _is_well(self, block: bytes) -> bool:
        """Looks at the events in a block; false where one of them is an error."""
        for event in self._parser.feed(block):
            self._look(event)
        return self.error is None

    def _look(self, event: SseEvent) -> None:
        if event.data.strip() == _DONE:
            self.done = True
            return
        try:
            said = _ANSWER.decode(event.data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise UpstreamInvalid("the upstream sent an event that is none") from error
        if said.error or said.type == "error":
            self.error = error_inside(event.data, "the upstream reported an error in its stream")
            return
        self._events += 1
        self.visible = True
        kind = said.type if isinstance(said.type, str) else ""
        ends = kind.endswith(_LAST)
        self.done = self.done or ends
        if ends or said.usage:
            self._count(said, ends=ends)

    def _count(self, said: PassedAnswer, *, ends: bool) -> None:
        """The last event says what it took; of several pictures, each what itself did."""
        usage = usage_said(self._asked, said)
        self._pictures += ends
        if self._asked.images is not None and usage.units is not None:
            usage = _added(self.usage, usage, images=self._pictures)
        self.usage = usage


def _added(before: Usage | None, usage: Usage, *, images: int) -> Usage:
    """The usage of one picture more."""
    units = msgspec.structs.replace(usage.units or _NO_UNITS, images=images)
    if before is None or before.units is None:
        return msgspec.structs.replace(usage, units=units)
    known = before.units
    return msgspec.structs.replace(
        usage,
        prompt_tokens=before.prompt_tokens + usage.prompt_tokens,
        output_tokens=before.output_tokens + usage.output_tokens,
        cached_tokens=before.cached_tokens + usage.cached_tokens,
        units=msgspec.structs.replace(
            units,
            image_tokens=known.image_tokens + units.image_tokens,
            output_image_tokens=known.output_image_tokens + units.output_image_tokens,
            counted=known.counted and units.counted,
        ),
    )
