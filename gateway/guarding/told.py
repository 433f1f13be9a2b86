"""What the client is told of its guards: one header, with those that did anything."""

from collections.abc import Sequence

from gateway.guard_mark import GuardMark, words_of

GUARDS = b"x-headrace-guards"

RawHeader = tuple[bytes, bytes]


def with_marks(headers: Sequence[RawHeader], marks: Sequence[GuardMark]) -> tuple[RawHeader, ...]:
    """The headers, with what all guards have done so far in place of what was known before."""
    others = tuple(header for header in headers if header[0] != GUARDS)
    words = words_of(marks)
    return (*others, (GUARDS, words.encode())) if words else others
