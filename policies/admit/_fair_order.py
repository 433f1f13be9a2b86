"""Whose turn it is: classes first, then fairness across tenants, then the most value for the least work.

Every step is a heap's push or pop; nothing walks over those who wait.
"""

import heapq
import math
from collections import OrderedDict
from dataclasses import dataclass, field

CLASSES = ("interactive", "standard", "batch")
_RANK = {name: rank for rank, name in enumerate(CLASSES)}

_MOST_COUNTERS = 10_000
"""Tenants whose turns are remembered while they have no request here."""

_SCALES = 32
_FIRST_SCALE = 12
"""Densities are told apart by powers of two: from 2^-12 to 2^19 square seconds."""

_CLEARED_FROM = 8

_MOST_TURNS_SAVED = 8
"""Requests like its newest by which a tenant may be ahead after a pause. With none, one that asks for less than its
share loses what it left over in every moment in which nothing of it waits, and its small bursts are refused beside a
flood."""


@dataclass(slots=True, eq=False)
class Waiter:
    """One request that waits.

    ``tokens`` is its predicted work, ``work_s`` the seconds that it takes, ``slack_s`` what it can wait. ``gone`` is
    set when it waits no more, for whatever reason.
    """

    tenant: str
    priority: str
    weight: float
    tokens: int
    work_s: float
    slack_s: float
    since_s: float
    gone: bool = False
    number: int = -1

    @property
    def density(self) -> float:
        """Work times slack: what is short and urgent comes first, since it yields the most answers in time."""
        return self.work_s * max(self.slack_s, 0.0)

    @property
    def scale(self) -> int:
        """The power of two of its density."""
        return min(max(math.frexp(self.density)[1] + _FIRST_SCALE, 0), _SCALES - 1) if self.density else 0

    @property
    def rank(self) -> int:
        """Its class' place; a class that nobody knows is the last."""
        return _RANK.get(self.priority, len(CLASSES) - 1)


@dataclass(slots=True, eq=False)
class _Line:
    """One tenant's requests of a class: a heap by density, how many wait, and how much work there is of each scale."""

    tenant: str
    weight: float
    heap: list[tuple[float, int, Waiter]] = field(default_factory=list)
    waiting: int = 0
    work_s: list[float] = field(default_factory=lambda: [0.0] * _SCALES)


@dataclass(slots=True)
class _Class:
    """One class: each tenant's line, a heap of them by what they were served, and all who wait in their order."""

    lines: dict[str, _Line] = field(default_factory=dict)
    turns: list[tuple[float, int, _Line]] = field(default_factory=list)
    arrivals: OrderedDict[int, Waiter] = field(default_factory=OrderedDict)
    work_s: float = 0.0
    weight: float = 0.0

    def oldest(self) -> Waiter | None:
        return next(iter(self.arrivals.values()), None)


class FairOrder:
    """The order in which those who wait are served.

    * **Classes** go in their order; each ``age_s`` that the longest waiter of a class has waited lifts it by a class,
      and one that has waited so long goes before others of its class, so that nothing starves.
    * **Tenants** of a class take turns by virtual token counters: each is charged the tokens that it was served,
      divided by its weight, and the one that was charged least is next. Who comes back after a pause starts eight
      turns before the least of those who wait at most, so that nobody saves up more. (Sheng et al., Fairness in
      Serving LLMs, OSDI 2024, where it is none.)
    * **Requests** of a tenant go by work times slack, the smallest first.
    """

    def __init__(self, *, age_s: float) -> None:
        self._age_s = age_s
        self._classes = [_Class() for _ in CLASSES]
        self._served: OrderedDict[str, float] = OrderedDict()
        self._count = 0
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def work_before_s(self, rank: int) -> float:
        """The work that waits in classes up to ``rank``."""
        return sum(group.work_s for group in self._classes[: rank + 1])

    def work_ahead_s(self, waiter: Waiter) -> float:
        """The work that would be served before a request that comes now.

        All of the classes above; of its own class what its tenant has that is as short and urgent or more so, and what
        the others are served meanwhile, who take turns with it by their weights.
        """
        group = self._classes[waiter.rank]
        line = group.lines.get(waiter.tenant)
        own_s = sum(line.work_s[: waiter.scale + 1]) if line is not None else 0.0
        weight = group.weight if line is not None else group.weight + waiter.weight
        turns_s = own_s * weight / waiter.weight
        return self.work_before_s(waiter.rank - 1) + max(min(turns_s, group.work_s), 0.0)

    def position(self, rank: int) -> int:
        """How many wait in classes up to ``rank``."""
        return sum(len(group.arrivals) for group in self._classes[: rank + 1])

    def push(self, waiter: Waiter) -> None:
        """Somebody begins to wait."""
        group = self._classes[waiter.rank]
        self._count += 1
        waiter.number = self._count
        group.arrivals[waiter.number] = waiter
        group.work_s += waiter.work_s
        self._waiting += 1
        line = group.lines.get(waiter.tenant)
        if line is None:
            line = group.lines[waiter.tenant] = _Line(waiter.tenant, waiter.weight)
            group.weight += line.weight
            saved = _MOST_TURNS_SAVED * waiter.tokens / waiter.weight
            self._set(waiter.tenant, max(self._served.get(waiter.tenant, 0.0), self._least(group) - saved))
            heapq.heappush(group.turns, (self._served[waiter.tenant], waiter.number, line))
        line.waiting += 1
        line.work_s[waiter.scale] += waiter.work_s
        heapq.heappush(line.heap, (waiter.density, waiter.number, waiter))

    def pop(self, now_s: float) -> Waiter | None:
        """Who is next; ``None`` where nobody waits."""
        best: tuple[float, _Class, Waiter] | None = None
        for rank, group in enumerate(self._classes):
            oldest = group.oldest()
            if oldest is not None:
                lifted = rank - (now_s - oldest.since_s) / self._age_s
                if best is None or lifted < best[0]:
                    best = (lifted, group, oldest)
        if best is None:
            return None
        _, group, oldest = best
        waiter = oldest if now_s - oldest.since_s >= self._age_s else self._fairest(group)
        self.remove(waiter)
        return waiter

    def remove(self, waiter: Waiter) -> None:
        """It waits no more; nothing where it did not. Its place in the heaps is cleared when it comes up."""
        group = self._classes[waiter.rank]
        if group.arrivals.pop(waiter.number, None) is None:
            return
        waiter.gone = True
        self._waiting -= 1
        if not group.arrivals:  # sums of floats drift; an empty class is exactly empty
            group.lines.clear()
            group.turns.clear()
            group.work_s = group.weight = 0.0
            return
        group.work_s -= waiter.work_s
        line = group.lines[waiter.tenant]
        line.waiting -= 1
        line.work_s[waiter.scale] -= waiter.work_s
        if not line.waiting:
            del group.lines[waiter.tenant]
            group.weight -= line.weight
            if len(group.turns) > 2 * len(group.lines) + _CLEARED_FROM:
                group.turns[:] = [turn for turn in group.turns if turn[2].waiting]
                heapq.heapify(group.turns)
        elif len(line.heap) > 2 * line.waiting + _CLEARED_FROM:
            line.heap[:] = [item for item in line.heap if not item[2].gone]
            heapq.heapify(line.heap)

    def charge(self, tenant: str, weight: float, tokens: float) -> None:
        """The tenant was served so many tokens more than it was charged; fewer, where that is negative."""
        self._set(tenant, self._served.get(tenant, 0.0) + tokens / weight)

    def _fairest(self, group: _Class) -> Waiter:
        self._least(group)
        heap = group.turns[0][2].heap
        while heap[0][2].gone:
            heapq.heappop(heap)
        return heap[0][2]

    def _least(self, group: _Class) -> float:
        """What the tenant that is next was charged; brings it to the front. Zero where nobody waits."""
        turns = group.turns
        while turns:
            charged, number, line = turns[0]
            now = self._served.get(line.tenant, charged)
            if not line.waiting:
                heapq.heappop(turns)
            elif charged != now:  # it was served meanwhile: to its new place
                heapq.heapreplace(turns, (now, number, line))
            else:
                return charged
        return 0.0

    def _set(self, tenant: str, charged: float) -> None:
        self._served[tenant] = charged
        self._served.move_to_end(tenant)
        if len(self._served) > _MOST_COUNTERS:
            self._served.popitem(last=False)
