"""The outside world, as far as backends and policies may use it: time, small shared facts, secrets, connections."""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol


class Clock(Protocol):
    """Time, so that tests need not wait for it."""

    def now_s(self) -> float:
        """Monotonic seconds."""
        ...

    def unix_s(self) -> float:
        """Seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Returns after ``seconds``."""
        ...


class Shared(Protocol):
    """Small facts that the replicas of a gateway share: cool-downs, affinity.

    Reading is local and never waits; a store over a network keeps a local view and syncs behind it.
    """

    def put(self, key: str, value: str, ttl_s: float) -> None:
        """Remembers ``value`` for ``ttl_s`` seconds, zero to forget it; bounded in number: the oldest go first."""
        ...

    def get(self, key: str) -> tuple[str, float] | None:
        """The value and the seconds it has left, or ``None``."""
        ...

    def values_under(self, prefix: str) -> Sequence[str]:
        """The values of all keys that begin so. Walks over all that is known: not for the path of a request."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """An upstream to connect to, and how. ``base_url`` has no path at its end that a request adds, no user, no query.

    ``headers`` go with every request: credentials, and what the operator adds. ``verify`` is a file of CA certificates,
    true for the usual ones, false for none at all; ``client_certificate`` and ``client_key`` are files, or empty.
    """

    base_url: str
    headers: Mapping[str, str] = field(repr=False)
    connect_timeout_s: float
    keep_alive_s: float
    max_connections: int
    verify: bool | str = True
    client_certificate: str = ""
    client_key: str = ""


class _AtOnce:
    """Can be awaited, and waits for nothing."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()


AT_ONCE: Final = _AtOnce()
"""What comes back in place of a coroutine where all is done already: a stream's chunk, as long as its client keeps up.

Whoever looks for it spares a coroutine, everybody else awaits it like any.
"""


class UpstreamAnswer(Protocol):
    """The head of an upstream's answer, and its body piece by piece. Header names are in lower case."""

    status: int

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        """All of the head."""
        ...

    def header(self, name: str) -> str:
        """The value of one header; of several with its name the last one's, empty where there is none."""
        ...

    async def whole(self, most_bytes: int) -> bytes:
        """All of the body.

        Raises:
            UpstreamUnreachable: the connection broke, or what came is no HTTP.
            UpstreamInvalid: it is longer than ``most_bytes``.
        """
        ...

    async def piece(self) -> bytes:
        """The next piece of the body as it came, without its framing; empty at its end. Meanwhile the upstream waits.

        Raises:
            UpstreamUnreachable: the connection broke, or what came is no HTTP.
        """
        ...

    async def pour(self, take: Callable[[bytes], Awaitable[None]]) -> None:
        """Hands the rest of the body to ``take``, piece by piece, each as soon as it comes and the one before is taken.

        What gives back ``AT_ONCE`` has taken its piece, and nobody waits for it.

        Raises:
            UpstreamUnreachable: the connection broke, or what came is no HTTP.
        """
        ...


class Connections(Protocol):
    """Kept connections to one origin, over which nothing goes but what we put there."""

    def post(
        self, path: str, body: bytes, *, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[UpstreamAnswer]:
        """Sends ``body`` and gives the answer's head; leaving the block, in whatever way, gives the connection back.

        A connection whose answer was not read to its end is closed, at once. What ``headers`` name goes instead of the
        origin's header of the same name; without a ``content-type``, the body is announced as JSON.

        Raises:
            UpstreamUnreachable: no connection, or it broke before an answer.
            ConnectionsBusy: none was free in time.
            UpstreamTimeout: connecting took too long.
            UpstreamInvalid: what came instead of a head is no HTTP, or too long.
            ValueError: the path or a header is none.
        """
        ...

    async def close(self) -> None:
        """Closes all connections; idempotent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a backend may use of the world: the clock, secrets by their name, connections, and where models lie.

    ``secret`` answers the value of an environment variable that the policy file names, or ``None``; ``connect`` opens
    the gateway's own connections; ``behind_proxy`` tells whether the environment has a proxy for an address;
    ``run_dir`` is a private directory where the workers of a gateway meet, ``None`` where there is but one;
    ``count_drafts`` takes a backend's name, a source, and how many tokens it drafted and how many of them were right.
    """

    clock: Clock
    secret: Callable[[str], str | None]
    connect: Callable[[Origin], Connections]
    behind_proxy: Callable[[str], bool]
    model_dir: Path
    run_dir: Path | None = None
    count_drafts: Callable[[str, str, int, int], None] = lambda *_: None
