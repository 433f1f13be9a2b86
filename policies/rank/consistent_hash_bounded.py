"""The candidate that the beginning of the prompt hashes to, unless it has too much to do."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from gateway.types import Bill, ChatRequest, Context

_Name = tuple[str, str]
_RINGS_KEPT = 32


class _Rings:
    """The hash rings of the sets of candidates that were seen last."""

    __slots__ = ("_rings",)

    def __init__(self) -> None:
        self._rings: dict[tuple[_Name, ...], tuple[list[int], list[_Name]]] = {}

    def of(self, names: Sequence[_Name], replication: int) -> tuple[list[int], list[_Name]]:
        key = tuple(sorted(names))
        ring = self._rings.get(key)
        if ring is None:
            if len(self._rings) >= _RINGS_KEPT:
                self._rings.clear()
            places = sorted((_hash(f"{'/'.join(name)}{copy}"), name) for name in key for copy in range(replication))
            ring = self._rings[key] = ([place for place, _ in places], [name for _, name in places])
        return ring


@dataclass(frozen=True, kw_only=True)
class ConsistentHashBounded:
    """The candidate that the beginning of the prompt hashes to, unless it has too much to do.

    ::

        fits  = in_flight + 1 <= mean_load_factor x (requests in flight everywhere + 1) / candidates
        first = the first on the ring, from the prompt's place on, that fits; else the prompt's own

    Consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, SODA 2018) as KubeAI's ``PrefixHash``
    has it (``internal/loadbalancer/balance_chwbl.go``), with its defaults. The prompt's beginning is the first
    characters of a completion's prompt, or of the first turn of the user in a chat. Where all begin alike, all go to
    the same place, and only the bound spreads them.

    Attributes:
        mean_load_factor: how much more than the mean a candidate may have.
        replication: how many places each candidate has on the ring.
        prefix_characters: how much of the prompt is hashed.

    Example::

        rank: {use: consistent_hash_bounded, prefix_characters: 100}
    """

    mean_load_factor: float = 1.25
    replication: int = 256
    prefix_characters: int = 100
    _rings: _Rings = field(init=False, repr=False, compare=False, default_factory=_Rings)

    def __post_init__(self) -> None:
        if not 1 <= self.mean_load_factor < math.inf:
            raise ValueError(f"`mean_load_factor` must be at least 1, and is {self.mean_load_factor}")
        if not 1 <= self.replication <= 10_000:  # noqa: PLR2004  # a ring of a sensible size
            raise ValueError(f"`replication` must be from 1 to 10,000, and is {self.replication}")
        if self.prefix_characters < 0:
            raise ValueError(f"`prefix_characters` must not be negative, and is {self.prefix_characters}")

    def order(self, ctx: Context, bills: tuple[Bill, ...]) -> tuple[Bill, ...]:
        """Those that fit, then those that do not, each in their order on the ring from the prompt's place on."""
        named = {(bill.candidate.backend, bill.candidate.model): bill for bill in bills}
        if not named:
            return bills
        in_flight = sum(bill.candidate.in_flight for bill in bills)
        most = self.mean_load_factor * (in_flight + 1) / len(bills)
        round_the_ring = [named[name] for name in self._walk(ctx.request, tuple(named))]
        return tuple(sorted(round_the_ring, key=lambda bill: in_flight > 0 and bill.candidate.in_flight + 1 > most))

    def _walk(self, request: ChatRequest, names: tuple[_Name, ...]) -> Iterator[_Name]:
        places, owners = self._rings.of(names, self.replication)
        first = bisect_left(places, _hash(_beginning(request)[: self.prefix_characters]))
        seen: set[_Name] = set()
        for step in range(len(owners)):
            owner = owners[(first + step) % len(owners)]
            if owner not in seen:
                seen.add(owner)
                yield owner
                if len(seen) == len(names):
                    return


def _beginning(request: ChatRequest) -> str:
    if isinstance(request.prompt, str):
        return request.prompt
    return next((message.text() for message in request.messages if message.role == "user"), "")


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
