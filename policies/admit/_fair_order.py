"""Whose turn it is: classes first, then fairness across tenants, then the most value for the least work.

Every step is a heap's push or pop; nothing walks over those who wait.
"""

import heapq
from collections import OrderedDict
from dataclasses import dataclass, field

CLASSES = ("interactive", "standard", "batch")
_RANK = {name: rank for rank, name in enumerate(CLASSES)}

_MOST_COUNTERS = 10_000
"""Tenants whose turns are remembered while they have no request here."""


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
    def rank(self) -> int:
        """Its class' place; a class that nobody knows is the last."""
        return _RANK.get(self.priority, len(CLASSES) - 1)


@dataclass(slots=True)
class _Class:
    """One class: each tenant's heap by density, the tenants' heap by what they were served, and all in their order."""

    tenants: dict[str, list[tuple[float, int, Waiter]]] = field(default_factory=dict)
    turns: list[tuple[float, int, str]] = field(default_factory=list)
    arrivals: OrderedDict[int, Waiter] = field(default_factory=OrderedDict)
    work_s: float = 0.0

    def oldest(self) -> Waiter | None:
        return next(iter(self.arrivals.values()), None)


class FairOrder:
    """The order in which those who wait are served.

    * **Classes** go in their order; each ``age_s`` that the longest waiter of a class has waited lifts it by a class,
      and one that has waited so long goes before others of its class, so that nothing starves.
    * **Tenants** of a class take turns by virtual token counters: each is charged the tokens that it was served,
      divided by its weight, and the one that was charged least is next. Who comes back after a pause starts with the
      least of those who wait, so that nobody saves up turns. (Sheng et al., Fairness in Serving LLMs, OSDI 2024.)
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
        """The work that waits in classes up to ``rank``: what one who comes now to that class finds before it."""
        return sum(group.work_s for group in self._classes[: rank + 1])

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
        heap = group.tenants.get(waiter.tenant)
        if heap is None:
            heap = group.tenants[waiter.tenant] = []
            least = group.turns[0][0] if group.turns else 0.0
            self._set(waiter.tenant, max(self._served.get(waiter.tenant, 0.0), least))
            heapq.heappush(group.turns, (self._served[waiter.tenant], waiter.number, waiter.tenant))
        heapq.heappush(heap, (waiter.density, waiter.number, waiter))

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
        group.work_s = group.work_s - waiter.work_s if group.arrivals else 0.0
        if not group.arrivals:
            group.tenants.clear()
            group.turns.clear()
        elif len(heap := group.tenants[waiter.tenant]) > 2 * len(group.arrivals):
            _compact(heap)

    def charge(self, tenant: str, weight: float, tokens: float) -> None:
        """The tenant was served so many tokens more than it was charged; fewer, where that is negative."""
        self._set(tenant, self._served.get(tenant, 0.0) + tokens / weight)

    def _fairest(self, group: _Class) -> Waiter:
        while True:
            charged, number, name = group.turns[0]
            heap = group.tenants[name]
            while heap and heap[0][2].gone:
                heapq.heappop(heap)
            if not heap:
                heapq.heappop(group.turns)
                del group.tenants[name]
            elif charged != self._served.get(name, charged):  # it was served meanwhile: to its new place
                heapq.heapreplace(group.turns, (self._served[name], number, name))
            else:
                return heap[0][2]

    def _set(self, tenant: str, charged: float) -> None:
        self._served[tenant] = charged
        self._served.move_to_end(tenant)
        if len(self._served) > _MOST_COUNTERS:
            self._served.popitem(last=False)


def _compact(heap: list[tuple[float, int, Waiter]]) -> None:
    """Takes out who left from the middle, before they are more than those who stay."""
    heap[:] = [item for item in heap if not item[2].gone]
    heapq.heapify(heap)
