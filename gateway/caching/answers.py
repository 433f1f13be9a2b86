"""Answers that were given, by what was asked: bounded in bytes, the one that was not used for longest goes first."""

from collections import OrderedDict
from dataclasses import dataclass
from decimal import Decimal

from gateway.ports import Backend

_BESIDES_BYTES = 512
"""What an answer takes besides its bytes: its key, its fields, its place in the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer:
    """An answer as its client got it: the body, or all of the stream.

    ``backend`` gave it, which the policy file calls ``name``, on its ``model``; ``dropped`` are the fields that it did
    not get. ``saved_usd`` is what it cost, ``None`` where nobody knows. ``kept_s`` is on the monotonic clock.
    """

    body: bytes
    backend: Backend
    name: str
    model: str
    finish_reason: str
    saved_usd: Decimal | None
    kept_s: float
    dropped: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        """About what it takes of the memory."""
        return len(self.body) + _BESIDES_BYTES


class Answers:
    """The answers of one route, at most ``most_bytes`` of them."""

    __slots__ = ("_kept", "bytes", "most_bytes")

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._kept: OrderedDict[bytes, KeptAnswer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: bytes) -> KeptAnswer | None:
        """The answer, which is then the one used last."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: bytes, answer: KeptAnswer) -> None:
        """Keeps an answer in place of an older one; not one that would not fit alone."""
        self.forget(key)
        if answer.size_bytes > self.most_bytes:
            return
        self._kept[key] = answer
        self.bytes += answer.size_bytes
        while self.bytes > self.most_bytes:
            self.bytes -= self._kept.popitem(last=False)[1].size_bytes

    def forget(self, key: bytes) -> None:
        """There is no such answer any more."""
        gone = self._kept.pop(key, None)
        if gone is not None:
            self.bytes -= gone.size_bytes
