"""What a client format has to know: both directions of one endpoint, as pure functions and two small state machines.

A format reads the client's body into the hub request, writes the body for an upstream that speaks the same format, and
looks at what comes back. It does no I/O and knows no backend.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gateway.errors import HeadraceError, UpstreamError
from gateway.price import Usage
from gateway.types import Arrival, ChatRequest, Operation

MAX_EVENT_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """How much a request may hold beyond its size in bytes, which is bounded before anybody parses it.

    ``max_depth`` counts nested arrays and objects, the body itself included. ``max_messages`` bounds the messages of a
    chat and the prompts of a completion.
    """

    max_depth: int = 128
    max_messages: int = 4096


DEFAULT_LIMITS = BodyLimits()

Estimate = Callable[[int], Usage]
"""The usage of an answer, out of the bytes of its text; its prompt is known to who estimates."""

BYTES_PER_TOKEN = 4


def estimate_output(output_bytes: int) -> Usage:
    """Counts what nobody else counted, by the usual length of a token, and says so."""
    return Usage(output_tokens=-(-output_bytes // BYTES_PER_TOKEN), estimated=True)


class WholeView(Protocol):
    """One look at a whole answer.

    ``usage`` is ``None`` where the upstream did not say, ``finish_reason`` and ``model`` are then empty.
    ``output_bytes`` is the length of the visible text and tool arguments as JSON, from which usage can be estimated.
    """

    usage: Usage | None
    finish_reason: str
    model: str
    output_bytes: int

    def take(self, body: bytes) -> bytes:
        """Judges the body, and returns it unchanged for the client.

        Raises:
            UpstreamInvalid: it is empty, not JSON, or has no choices.
            UpstreamError: it is an error in the clothes of a success.
        """
        ...


class StreamView(Protocol):
    """One look at a streamed answer, as it passes.

    ``visible`` is true from the first output that a person or a program could see. ``done`` says that the upstream's
    own end mark came. ``error`` is set where an error arrived inside the stream. ``output_bytes`` is exact for events
    that had to be parsed and an estimate for the others. The rest is as in ``WholeView``.
    """

    usage: Usage | None
    finish_reason: str
    model: str
    output_bytes: int
    visible: bool
    done: bool
    error: UpstreamError | None

    def feed(self, data: bytes) -> bytes:
        """Takes bytes as the upstream cut them, and returns whole events for the client, possibly none.

        After an error in the stream it returns the events before it, sets ``error`` and ignores the rest.

        Raises:
            UpstreamInvalid: an event is too long, or is not what the format says.
        """
        ...

    def end(self) -> bytes:
        """The upstream closed cleanly: returns what is still owed to the client.

        Raises:
            UpstreamTruncated: the answer is not complete.
            UpstreamInvalid: there was no answer at all.
        """
        ...


class Format(Protocol):
    """One client format, both directions."""

    @property
    def operation(self) -> Operation:
        """The endpoint that speaks it."""
        ...

    def read(self, arrival: Arrival, body: bytes, limits: BodyLimits = DEFAULT_LIMITS) -> ChatRequest:
        """The client's body as a hub request.

        Raises:
            InvalidRequest: with ``param`` as a path into the body; the words never quote a value.
        """
        ...

    def upstream_body(self, request: ChatRequest, model: str) -> bytes:
        """The client's body with ``model`` replaced and, in a stream, usage asked for; all else byte for byte."""
        ...

    def whole(self, request: ChatRequest) -> WholeView:
        """A fresh look at the whole answer to ``request``."""
        ...

    def stream(
        self, request: ChatRequest, *, max_event_bytes: int = MAX_EVENT_BYTES, estimate: Estimate = estimate_output
    ) -> StreamView:
        """A fresh look at the streamed answer to ``request``.

        Where the client asked for usage and the upstream does not count, it gets what ``estimate`` makes of the bytes.
        """
        ...

    def error_body(self, error: HeadraceError) -> bytes:
        """The error as a body in the format's own shape."""
        ...

    def error_event(self, error: HeadraceError) -> bytes:
        """The error as an event in the format's own shape, for a stream that has begun."""
        ...
