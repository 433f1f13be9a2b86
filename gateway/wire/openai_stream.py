"""One look at an OpenAI stream, chat or completion, as its bytes pass.

Once something visible has gone by, events like one that was looked into are known by the bytes around their text (see
``mould``). Of others those are parsed by which that is learned, in which a search says that something matters, or that
are cut short; what it finds inside text costs a parse and nothing else, for in JSON text a quotation mark is escaped.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from gateway.errors import UpstreamInvalid, UpstreamTruncated
from gateway.price import Usage
from gateway.wire.json_body import edit
from gateway.wire.mould import Mould, mould_of
from gateway.wire.openai_answer import DONE
from gateway.wire.openai_chunk import MATTERS, Choice, Chunk, matters, read_chunk, read_tool_calls
from gateway.wire.openai_output import is_nothing, shown_bytes, shown_text
from gateway.wire.openai_usage import read_usage
from gateway.wire.sse import SseParser, frame
from gateway.wire.stream_look import StreamLook
from gateway.wire.tool_calls import ToolCallRepair
from gateway.wire.upstream_codes import broken_off, error_inside

Uncounted = Callable[[str, str, int, int], bytes]

_FRAME_BYTES = len(b"data: \n\n")
_MOST_MOULDS = 8
"""So many events that are unlike those before are looked into, for what comes next to be known by."""

_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_LIST_OF_FIELDS = msgspec.json.Decoder(list[dict[str, Raw]])
_ENCODE = msgspec.json.Encoder().encode
_NOTHING: dict[str, Any] = {}


class OpenAIStream(StreamLook):
    """See ``StreamView``.

    Args:
        choices: how many choices the client asked for.
        include_usage: whether the client asked for the usage event.
        continuous: whether it asked for counts in every event, which vLLM calls ``continuous_usage_stats``.
        max_event_bytes: the longest event that is let through.
        uncounted: makes the usage event where the client asked for it and the upstream did not count, out of the
            answer's id and model, when it was created, and the bytes of its text.
    """

    __slots__ = (
        "_began",
        "_choices",
        "_continuous",
        "_created_unix_s",
        "_envelope_bytes",
        "_finished",
        "_flows",
        "_id",
        "_include_usage",
        "_max_event_bytes",
        "_mould",
        "_moulds_left",
        "_parser",
        "_tool_calls",
        "_uncounted",
        "_usage_chunk",
    )

    def __init__(
        self,
        *,
        choices: int,
        include_usage: bool,
        max_event_bytes: int,
        uncounted: Uncounted | None = None,
        continuous: bool = False,
    ) -> None:
        super().__init__()
        self._choices = choices
        self._include_usage = include_usage
        self._continuous = continuous and include_usage
        self._max_event_bytes = max_event_bytes
        self._uncounted = uncounted
        self._id = ""
        self._created_unix_s = 0
        self._parser = SseParser(max_event_bytes)
        self._tool_calls = ToolCallRepair()
        self._finished: set[int] = set()
        self._usage_chunk: dict[str, Raw] | None = None
        self._began = False
        self._envelope_bytes = 0
        self._flows = False  # whole events may go on as they came
        self._mould: Mould | None = None
        self._moulds_left = _MOST_MOULDS

    def feed(self, data: bytes) -> bytes:
        """See ``StreamView.feed``."""
        if not self._flows:
            return self._feed_by_event(data)
        if len(data) > self._max_event_bytes:
            return self._feed_events(data)
        alike_bytes = 0
        if self._mould is not None:
            alike_bytes, text_bytes = self._mould.fits(data)
            self.output_bytes += text_bytes
            if alike_bytes == len(data):
                return data
        return data[:alike_bytes] + self._feed_unlike(data[alike_bytes:])

    def end(self) -> bytes:
        """See ``StreamView.end``."""
        if self.error is not None:
            return b""
        if not self._began and (self.done or not self._parser.partial):
            raise UpstreamInvalid("the upstream closed its stream without an answer")
        if self.done:
            return b""
        if len(self._finished) < self._choices:
            raise UpstreamTruncated("the upstream closed its stream before the answer was complete")
        return self._finish()

    def _feed_unlike(self, data: bytes) -> bytes:
        """Takes what is not like the event that was looked into; the next one is, where they look otherwise now."""
        mould = self._mould
        if self._moulds_left and (mould is None or (not data.startswith(mould.before) and data.find(b"\n\n") >= 0)):
            self._mould = None
            return self._feed_by_event(data)
        plain_bytes = self._plain_bytes(data)
        if plain_bytes == len(data):
            return data
        return data[:plain_bytes] + self._feed_events(data[plain_bytes:])

    def _feed_events(self, data: bytes) -> bytes:
        alone = self._parser.usual(data)
        if alone:
            out = self._event(alone, b"")
        else:
            events = self._parser.feed(data)
            out = b"".join([self._event(event.data, event.event) for event in events if event.data and not self.over])
        knows = self._mould is not None or not self._moulds_left
        self._flows = self.visible and knows and self._parser.idle and not self.over
        return out

    def _feed_by_event(self, data: bytes) -> bytes:
        """Takes event by event, until those that came with it can go as they are: the opening, or a cut event."""
        out: list[bytes] = []
        begin = 0
        while begin < len(data) and not self.over:
            end = data.find(b"\n\n", begin) + 2
            if end == 1:
                end = len(data)
            out.append(self._feed_events(data[begin:end]))
            begin = end
            if self._flows and begin < len(data):
                out.append(self.feed(data[begin:]))
                break
        return b"".join(out)

    def _plain_bytes(self, data: bytes) -> int:
        """The length of the whole events at the beginning that are in canonical form, and counts their text.

        It ends before the first event that has to be looked at; where the form is another, it is 0.
        """
        if not data.startswith(b"data: {"):
            return 0
        matter = MATTERS.search(data)
        end = data.rfind(b"\n\n", 0, matter.start() if matter else len(data)) + 2
        if end == 1:
            return 0
        events = 1
        if data.find(b"\n") != end - 2:
            events = data.count(b"\n\n", 0, end)
            if data.count(b"}\n\ndata: {", 0, end) != events - 1 or data.count(b"\n", 0, end) != 2 * events:
                return 0
        if not data.startswith(b"}", end - 3) or data.find(b"\r", 0, end) >= 0:
            return 0
        self.output_bytes += max(end - events * (self._envelope_bytes + _FRAME_BYTES), events)
        return end

    def _event(self, data: bytes, name: bytes) -> bytes:
        if data.strip() == b"[DONE]":
            return self._finish()
        if name == b"error":
            return self._fail(data)
        knows = self._mould is not None or not self._moulds_left
        if not self.visible or (knows and matters(data)):
            return self._chunk(data)
        if not knows:
            try:
                return self._chunk(data)
            except UpstreamInvalid:
                if matters(data):
                    raise
                self._moulds_left -= 1  # it is nothing that we know, and goes on like all in which nothing matters
        self.output_bytes += max(len(data) - self._envelope_bytes, 1)
        return frame(data)

    def _chunk(self, data: bytes) -> bytes:
        """An event that has to be looked into."""
        chunk = read_chunk(data)
        groqs = chunk.x_groq if isinstance(chunk.x_groq, dict) else _NOTHING
        if chunk.error or groqs.get("error"):
            return self._fail(data if chunk.error else _ENCODE(groqs))
        if not self._began:
            self._open(chunk)
            self._began = bool(chunk.choices)  # an envelope without one is not yet an answer
        text_bytes = 0
        for choice in chunk.choices or ():
            text_bytes += self._look(choice)
        if self.error is not None:
            return b""
        if text_bytes:
            self.output_bytes += text_bytes
            self._envelope_bytes = len(data) - text_bytes
            if self._mould is None and self._moulds_left:
                self._learn(chunk, data, text_bytes)
            data = self._with_tool_calls_repaired(chunk, data)
        usage = chunk.counted()
        if usage is not None:
            return self._without_usage(data, usage, bool(chunk.choices))
        if groqs:
            self.usage = self.usage or read_usage(groqs.get("usage"))
        return frame(data)

    def _learn(self, chunk: Chunk, data: bytes, text_bytes: int) -> None:
        """Takes note of how events look that say some text and nothing else."""
        if MATTERS.search(data) is not None:
            return
        self._moulds_left -= 1
        text = shown_text(chunk.choices[0].delta, chunk.choices[0].text) if chunk.choices else b""
        if len(text) == text_bytes + 2:
            self._mould = mould_of(data, text, bytes(chunk.obfuscation))

    def _open(self, chunk: Chunk) -> None:
        """Takes note of the envelope, which all chunks share."""
        self.model = chunk.model if isinstance(chunk.model, str) else ""
        self._id = chunk.id if isinstance(chunk.id, str) else ""
        self._created_unix_s = chunk.created if type(chunk.created) is int else 0

    def _look(self, choice: Choice) -> int:
        """Takes note of one choice; returns the length of what it shows."""
        if isinstance(choice.finish_reason, str) and choice.finish_reason:
            self.error = self.error or broken_off(choice.finish_reason)
            self._finished.add(choice.place)
            self.finish_reason = self.finish_reason or choice.finish_reason
            self.visible = True
        shown = shown_bytes(choice.delta, choice.text)
        self.visible = self.visible or shown > 0
        return shown

    def _with_tool_calls_repaired(self, chunk: Chunk, data: bytes) -> bytes:
        changes: dict[int, Raw] = {}
        for at, choice in enumerate(chunk.choices or ()):
            if choice.delta is None or not choice.delta.tool_calls or is_nothing(choice.delta.tool_calls):
                continue
            entries = self._tool_calls.repair(choice.place, read_tool_calls(choice.delta.tool_calls))
            if entries is not None:
                changes[at] = Raw(_ENCODE(entries))
        if not changes:
            return data
        fields = _FIELDS.decode(data)
        choices = _LIST_OF_FIELDS.decode(fields["choices"])
        for at, tool_calls in changes.items():
            delta = _FIELDS.decode(choices[at]["delta"])
            choices[at]["delta"] = Raw(edit(delta, {"tool_calls": bytes(tool_calls)}))
        return edit(fields, {"choices": _ENCODE(choices)})

    def _without_usage(self, data: bytes, usage: Usage, has_choices: bool) -> bytes:  # noqa: FBT001  # private, one call
        """Keeps the counts for the meter and the end of the stream; the rest of the chunk, if any, goes on."""
        self.usage = usage
        if not (self._include_usage or has_choices):
            return b""
        fields = _FIELDS.decode(data)
        if self._include_usage:
            self._usage_chunk = fields
        if not has_choices:
            return b""
        return frame(data if self._continuous else edit(fields, {"usage": None}))

    def _finish(self) -> bytes:
        """The usage event, if the client asked for it, and the end mark."""
        self.done = True
        if self._usage_chunk is None:
            return self._estimated() + DONE
        return frame(edit(self._usage_chunk, {"choices": b"[]"})) + DONE

    def _estimated(self) -> bytes:
        if self._uncounted is None or not self._include_usage or not self._began:
            return b""
        return self._uncounted(self._id, self.model, self._created_unix_s, self.output_bytes)

    def _fail(self, data: bytes) -> bytes:
        self.error = error_inside(data, "the upstream reported an error inside its stream")
        return b""
