"""What guards see of a request or an answer, what they say of it, and their doors.

A guard is pure: it looks at texts and says whether they may pass. Where only a service can tell, it answers what is to
be asked of whom, and the kernel asks. What it says of a text it says by its number: the kernel puts it back.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from gateway.guard_mark import Action, Stage
from gateway.judgement import Answer, HttpInquiry, Reply
from gateway.types import ChatRequest

CREDENTIALS = frozenset({"authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"})
"""Headers of a client, in lower case, that no guard sees."""


class Text(NamedTuple):
    """One text of a request or an answer.

    ``kind`` is ``text``, ``refusal``, ``reasoning`` or ``arguments`` (one value out of a tool call's arguments).
    ``role`` is whose turn it is, empty where there are no turns; an answer's is ``assistant``.
    """

    text: str
    kind: str
    role: str


def no_answer() -> Answer | None:
    """There is none yet."""
    return None


class Seen(Struct, frozen=True, kw_only=True):
    """What a guard looks at: ``texts`` are those of the request, or of the answer where ``stage`` is ``after``.

    ``request`` is as it stands after the guards before this one. ``answer`` reads the whole answer; it gives ``None``
    before there is one, and where nobody can read it. ``headers`` are the client's, without credentials, in lower case.
    """

    stage: Stage
    request: ChatRequest
    texts: Sequence[Text]
    answer: Callable[[], Answer | None] = no_answer
    headers: Sequence[tuple[bytes, bytes]] = ()


class Verdict(Struct, frozen=True, kw_only=True):
    """What a guard says. ``texts`` are, where it redacts, all of ``Seen.texts`` as they should be, in their order.

    ``annotations`` are names and values, each a word; what is none, or not allowed by the policy file, is dropped.
    ``reason`` is a word for the client of what is blocked, or empty.
    """

    action: Action
    texts: tuple[str, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    reason: str = ""


ALLOWED = Verdict(action=Action.ALLOW)


class CannotSay(Exception):
    """A guard has no verdict; the message says why and quotes nobody. What happens then is the policy file's to say."""


class Guard(Protocol):
    """Looks at what goes in or comes out.

    ``stages`` are those in which it can look, ``actions`` all that it may say besides ``allow``.
    """

    stages: ClassVar[frozenset[Stage]]

    @property
    def actions(self) -> tuple[Action, ...]:
        """See above."""
        ...

    def look(self, seen: Seen) -> Verdict | HttpInquiry:
        """Its verdict, or what must be asked first.

        Raises:
            CannotSay: it has none.
        """
        ...


@runtime_checkable
class InquiringGuard(Protocol):
    """A guard that asks somebody else."""

    def conclude(self, seen: Seen, reply: Reply) -> Verdict:
        """What the reply means.

        Raises:
            CannotSay: nothing.
        """
        ...


class Span(NamedTuple):
    """A part of a text, in characters, and what stands in its place."""

    begin: int
    end: int
    instead: str


@runtime_checkable
class WindowGuard(Protocol):
    """A guard that can look at a text while it grows: what it finds is never longer than ``longest_chars``.

    ``longest_chars`` is ``None`` where there is no such bound, and the guard can then look at whole texts alone.
    """

    @property
    def longest_chars(self) -> int | None:
        """See above."""
        ...

    def spans(self, text: str, begin: int) -> list[Span]:
        """What it finds in ``text`` from ``begin`` on: from the left, none in another; what is before is seen, too."""
        ...
