"""What the events of a stream have around their text, which is all that differs from one to the next.

An upstream writes each event of an answer alike: the same fields in the same order, with other words. Who knows that
from one event knows all that are like it by comparing bytes, many at once, without a look at what they say.
"""

import re
from operator import itemgetter

_NOT_IN_TEXT = re.compile(rb'["\r\n]')
_FRAME_BYTES = len(b"data: \n\n")
_QUOTES_BYTES = len(b'""')
_CUT_BYTES = len(b"}]}\n\n")
"""Events are cut apart at their last bytes: the more these are, the fewer of the others are looked at."""


class Mould:
    """What stands ``before`` the text of an event, ``between`` it and a second one, where there is one, and ``after``.

    All of it together with its frame: ``before`` begins with ``data:``, ``after`` ends with the empty line. None of it
    is anything that has to be looked into, and a text without a quotation mark cannot make it so.
    """

    __slots__ = ("_after", "_between", "_cut", "_inside", "_joint", "_usual_bytes", "before")

    def __init__(self, before: bytes, between: bytes, after: bytes, *, usual_bytes: int) -> None:
        self.before = before
        self._between = between
        self._after = after
        self._joint = after + before
        self._cut = after[-_CUT_BYTES:]
        self._inside = itemgetter(slice(len(before), len(self._cut) - len(after) or None))
        self._usual_bytes = usual_bytes

    def fits(self, data: bytes) -> tuple[int, int]:
        """How many bytes at the beginning are events like it, and about how many of those are text; (0, 0) if none."""
        before, after = self.before, self._after
        if not data.startswith(before):
            return 0, 0
        if not self._between and data.endswith(after):
            text = data[len(before) : -len(after)]  # where it is one event, and else more than that
            if _NOT_IN_TEXT.search(text) is None:
                return len(data), max(len(text), 1)
        end = data.rfind(after, len(before)) + len(after)
        # What is cut out of events like it gives them again; of others it does not, wherever they were cut.
        said = list(map(self._inside, data[: end - len(self._cut)].split(self._cut)))
        if before + self._joint.join(said) + after != data[:end] or not self._is_text(said):
            return 0, 0
        return end, max(end - len(said) * self._usual_bytes, len(said))

    def _is_text(self, said: list[bytes]) -> bool:
        """Whether that is the text of events, and nothing else is in between but what always is."""
        text = b"".join(said)
        if self._between:
            if text.count(self._between) != len(said):
                return False
            text = text.replace(self._between, b"")
        return _NOT_IN_TEXT.search(text) is None


def mould_of(data: bytes, text: bytes, second: bytes = b"") -> Mould | None:
    """The mould of an event with that ``data``, in which ``text`` and ``second`` are JSON strings as they stand there.

    ``None`` where they cannot be found for certain: the event has the same string elsewhere, too, or ``second`` is not
    behind ``text``.
    """
    if data.count(text) != 1 or data.find(b"\n") >= 0:
        return None
    before, _, after = data.partition(text)
    between = b""
    if second:
        between, found, after = after.partition(second)
        if not found or second in after:
            return None
        between = b'"' + between + b'"'
    usual_bytes = len(data) + _FRAME_BYTES - (len(text) - _QUOTES_BYTES)
    return Mould(b'data: %b"' % before, between, b'"%b\n\n' % after, usual_bytes=usual_bytes)


class TextMould:
    """The same for one event after the other, whose text itself is wanted: what stands around it, without a frame."""

    __slots__ = ("_after", "_before")

    def __init__(self, before: bytes, after: bytes) -> None:
        self._before = before
        self._after = after

    def text(self, data: bytes) -> bytes | None:
        """The text of an event like it, a JSON string; ``None`` where it is another or says nothing."""
        if not data.startswith(self._before) or not data.endswith(self._after):
            return None
        text = data[len(self._before) : -len(self._after)]
        return b'"%b"' % text if text and _NOT_IN_TEXT.search(text) is None else None


def text_mould_of(data: bytes, text: bytes) -> TextMould | None:
    """The mould of an event with that ``data``, one of whose strings, as JSON, is ``text``.

    ``None`` where it cannot be found for certain: there are two such strings, or some are written with escapes.
    """
    if data.count(text) != 1 or data.find(b"\\") >= 0:
        return None
    before, _, after = data.partition(text)
    return TextMould(b'%b"' % before, b'"%b' % after)
