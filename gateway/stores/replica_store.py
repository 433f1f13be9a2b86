"""The port to what the replicas of a gateway share: a stream of what happens, and small facts with an end."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

__all__ = ["Entry", "ReplicaStore", "StoreLost", "StoredFact"]


class StoreLost(Exception):
    """The store did not answer, or not in time. Says nothing about whether it did what it was asked."""


class Entry(NamedTuple):
    """One batch in the stream; ``number`` begins with the server's milliseconds at which it came."""

    number: str
    payload: bytes

    @property
    def came_ms(self) -> int:
        """When it came, on the server's clock."""
        return int(self.number.partition("-")[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFact:
    """A small fact that ends by itself, ``ends_in_ms`` from now; it has ended already where that is not positive."""

    key: str
    value: bytes
    ends_in_ms: int


class ReplicaStore(Protocol):
    """A stream of batches, and facts with an end, that all replicas of a gateway share."""

    async def write(self, payload: bytes, facts: Sequence[StoredFact]) -> int:
        """Keeps the facts and appends ``payload`` to the stream, where it is not empty; all of it or nothing.

        Returns:
            The store's milliseconds, by which entries are numbered.

        Raises:
            StoreLost: it may or may not have been done.
        """
        ...

    async def news(self, after: str, *, wait_s: float) -> list[Entry]:
        """What was appended after the entry ``after`` (``0`` is before all), waiting up to ``wait_s`` for the first.

        A few hundred entries at most, so that whoever takes them holds nobody up for long.

        Raises:
            StoreLost: nobody knows.
        """
        ...

    async def facts(self) -> list[StoredFact]:
        """All facts that have not ended.

        Raises:
            StoreLost: nobody knows.
        """
        ...

    async def close(self) -> None:
        """Gives all connections back; idempotent."""
        ...
