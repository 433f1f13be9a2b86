"""The doors of admission: who lets requests in, and what it may know of the room behind it."""

from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from msgspec import Struct

from gateway.types import Context


class Queued(Struct, frozen=True, kw_only=True, gc=False):
    """How a request met a queue.

    ``position`` is the place that it had there as it came, 1 for the next one. ``wait_s`` is how long it waited; of one
    that is refused as it comes, how long it would have had to.
    """

    position: int
    wait_s: float


class Visit(Protocol):
    """The block for which a request holds a place. ``queued`` says how it met the queue, ``None`` where it met none."""

    queued: Queued | None

    async def __aenter__(self) -> object:
        """Returns with a place.

        Raises:
            Rejected: with ``retry_after_s``, when there is no place and no room to wait.
        """
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Gives it back; how the block exits is the sample."""
        ...


class Room(Protocol):
    """The places behind an admitter: those of all backends of its route, whoever else has requests there.

    An admitter that binds late lets somebody in when there is room and no sooner; which backend it will be is decided
    after that, on what is true then.
    """

    def free(self) -> int | None:
        """How many more requests can begin now.

        ``None`` where there is no bound: a backend takes any number; or none is up, so that waiting helps nobody.
        """
        ...

    def hold(self, request: str) -> None:
        """A request, by its id, is on its way in: one place fewer, until it is dispatched to a backend."""
        ...

    def release(self, request: str) -> None:
        """It does not need that place any more; nothing where it has been dispatched."""
        ...

    def when_free(self, serve: Callable[[], None]) -> None:
        """Has ``serve`` called when there may be more room: once for each time it is asked, on the event loop.

        It may come too often and there may be no room then; that it never comes while there is some is promised.
        """
        ...


class Admitter(Protocol):
    """Lets a request in, makes it wait, or says no."""

    def admit(self, ctx: Context, room: Room) -> Visit:
        """Holds a place for as long as the block runs."""
        ...


class Queue(Protocol):
    """What an admitter that lets requests wait may also tell; where it does not, nobody asks."""

    def expected_wait_s(self, ctx: Context, room: Room) -> float:
        """How long the request would wait, if it came now: zero where there is a place."""
        ...


class Unbounded:
    """A ``Room`` without walls, for where no backend is behind it."""

    def free(self) -> int | None:
        """See ``Room.free``."""
        return None

    def hold(self, request: str) -> None:
        """See ``Room.hold``."""

    def release(self, request: str) -> None:
        """See ``Room.release``."""

    def when_free(self, serve: Callable[[], None]) -> None:
        """See ``Room.when_free``: there always is."""
