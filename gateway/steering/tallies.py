"""Sums that all replicas of the gateway add to, and that outlive each of them.

Each replica has a seat of its own and writes its part of a sum there and nowhere else; a sum is that of its parts. So
no two replicas ever write the same thing, what is heard twice counts once, and it does not matter in which order parts
come or how long the store that the replicas share was away. (A state-based counter, as Shapiro, Preguiça, Baquero and
Zawirski describe it, "Conflict-free replicated data types", 2011.) A replica that starts anew takes a new seat and
keeps what the old one wrote.

A part is a row of numbers that stands for a moment; a sum whose past counts less and less is brought to another moment
with its half-life.
"""

import math
from collections.abc import Sequence
from hashlib import blake2s

import msgspec
from msgspec import Struct

from gateway.ports import Shared

MOST_NAMES = 4096
MOST_SEATS = 256
SHARED_FOR_S = 30 * 86_400.0
TOLD_AGAIN = 300
"""At each so many meetings all is told anew: to a store that has come back empty, and before it expires there."""

_PREFIX = "tally/"
_NEVER_S = math.inf


class Part(Struct, frozen=True, array_like=True):
    """What one seat has added to one sum: ``amounts`` as they were at ``at_unix_s``; ``version`` counts its changes."""

    seat: str
    name: str
    version: int
    at_unix_s: float
    amounts: tuple[float, ...]


_DECODER = msgspec.json.Decoder(Part)
_RECORD = msgspec.msgpack.Decoder(list[Part])


class Tallies:
    """The sums by their names. ``seat`` is this process' own; no other's, ever."""

    def __init__(self, seat: str) -> None:
        self.seat = seat
        self.changes = 0
        self._parts: dict[str, dict[str, Part]] = {}
        self._untold: dict[tuple[str, str], Part] = {}
        self._shared: Shared | None = None
        self._meetings = 0

    def __contains__(self, name: str) -> bool:
        return name in self._parts

    def names(self, prefix: str) -> list[str]:
        """The sums whose names begin so."""
        return [name for name in self._parts if name.startswith(prefix)]

    def add(self, name: str, amounts: Sequence[float], *, at_unix_s: float, half_life_s: float = _NEVER_S) -> None:
        """Adds to this seat's part what happened at that moment, be it long ago: then it weighs less by now."""
        part = self._parts.get(name, {}).get(self.seat)
        if part is None:
            part = Part(self.seat, name, 0, at_unix_s, (0.0,) * len(amounts))
        now_s = max(part.at_unix_s, at_unix_s)
        old, new = faded(now_s - part.at_unix_s, half_life_s), faded(now_s - at_unix_s, half_life_s)
        added = tuple([a * old + b * new for a, b in zip(part.amounts, amounts, strict=True)])
        part = Part(self.seat, name, part.version + 1, now_s, added)
        self._keep(part)
        self._untold[part.seat, name] = part

    def total(self, name: str, *, now_unix_s: float, half_life_s: float = _NEVER_S) -> list[float]:
        """The sum of all parts, as it weighs at that moment; empty where nobody has added anything."""
        parts = self._parts.get(name)
        if parts is None:
            return []
        if len(parts) == 1:
            (part,) = parts.values()
            weight = faded(now_unix_s - part.at_unix_s, half_life_s)
            return [amount * weight for amount in part.amounts]
        weighed = [(part.amounts, faded(now_unix_s - part.at_unix_s, half_life_s)) for part in parts.values()]
        return [
            sum(amounts[at] * weight for amounts, weight in weighed) for at in range(min(len(a) for a, _ in weighed))
        ]

    def parts(self, name: str) -> list[Part]:
        """Each seat's part of a sum."""
        return list(self._parts.get(name, {}).values())

    def forget(self, name: str) -> None:
        """Nothing was ever added, as far as this replica knows."""
        if self._parts.pop(name, None) is not None:
            self.changes += 1

    # ---- the other replicas, and the time after a restart

    def share(self, shared: Shared) -> None:
        """Where the replicas leave their parts."""
        self._shared = shared
        self._tell_all()

    def meet(self) -> None:
        """Tells the others what has changed here, and takes in what has changed there."""
        if self._shared is None:
            return
        self._meetings += 1
        if self._meetings % TOLD_AGAIN == 0:
            self._tell_all()
        for part in self._untold.values():
            self._shared.put(_key(part), msgspec.json.encode(part).decode(), SHARED_FOR_S)
        self._untold.clear()
        for value in self._shared.values_under(_PREFIX):
            try:
                self._keep(_DECODER.decode(value))
            except msgspec.DecodeError:  # of a replica of another version
                continue

    def record(self) -> bytes:
        """All parts of all seats, to keep over a restart."""
        return msgspec.msgpack.encode([part for parts in self._parts.values() for part in parts.values()])

    def resume(self, record: bytes) -> None:
        """Takes back a record.

        Raises:
            ValueError: it is none.
        """
        try:
            parts = _RECORD.decode(record)
        except msgspec.MsgspecError as error:
            raise ValueError(f"this is no record of sums: {error}") from error
        for part in parts:
            self._keep(part)
            self._untold[part.seat, part.name] = part

    def _tell_all(self) -> None:
        self._untold.update({(part.seat, part.name): part for parts in self._parts.values() for part in parts.values()})

    def _keep(self, part: Part) -> None:
        """Takes a part where it is news; bounded: the names and seats that were quiet longest are forgotten."""
        seats = self._parts.setdefault(part.name, {})
        known = seats.get(part.seat)
        if known is not None and known.version >= part.version:
            return
        seats[part.seat] = part
        self.changes += 1
        if len(seats) > MOST_SEATS:
            del seats[min(seats, key=lambda seat: seats[seat].at_unix_s)]
        if len(self._parts) > MOST_NAMES:
            del self._parts[min(self._parts, key=self._last_unix_s)]

    def _last_unix_s(self, name: str) -> float:
        return max((part.at_unix_s for part in self._parts[name].values()), default=-math.inf)


def faded(age_s: float, half_life_s: float) -> float:
    """What is left of a weight of 1 after ``age_s``; a clock that goes back makes nothing weigh more."""
    return 1.0 if age_s <= 0 or half_life_s == _NEVER_S else math.exp2(-age_s / half_life_s)


def _key(part: Part) -> str:
    return f"{_PREFIX}{part.seat}/{blake2s(part.name.encode(errors='replace'), digest_size=12).hexdigest()}"
