"""What verdicts say of each backend, model and kind of request on a route; and what that makes likely elsewhere.

**Credit.** A task counts once: its verdict is divided equally among those of its requests whose clients got an answer.
What was refused or broke off teaches nothing here; that is the failure rate's.

**Forgetting.** A task counts by the age of its requests, not of its verdict: half after a half-life. So a late verdict
says something about the time it was about, and the order of verdicts changes nothing.

**New cells** start from what is known beside them, in this order: the route, then the kind of request and the backend
on that route, then both together::

    p(route)                = (S + a x 1/2) / (n + a)
    p(route, kind)          = (S + a x p(route)) / (n + a)            p(route, backend) likewise
    prior(cell)             = logistic(logit p(route, kind) + logit p(route, backend) - logit p(route))
    p(cell)                 ~ Beta(S + b x prior, F + b x (1 - prior))

with ``S`` successes, ``F`` failures and ``n`` both, ``a`` = 1 and ``b`` = 2 tasks' worth of belief. However badly the
others do, a prior is at least ``1 / 10 / (1 + n(backend))``: who was never judged there can still be tried.
"""

import math
from typing import NamedTuple

from gateway.forecast import RequestKind
from gateway.steering.beta import interval, mean
from gateway.steering.tallies import Tallies
from gateway.success import Success
from gateway.task import JudgedRequest

_MARGIN_BELIEF = 1.0
_CELL_BELIEF = 2.0
_SURELY = 1e-4
_UNTRIED = 0.1
_FRESH_FOR = 1e-3
"""A table of chances is made anew after this part of a half-life, in which next to nothing is forgotten."""
_MOST_CELLS = 256
"""Of one route. Clients may choose a model's name where a target leaves it open; further ones share a cell."""

_MOST_ASKED = 1024
_MOST_CHARACTERS = 256
_OTHER = "other"
_PREFIX = "cell"
_BETWEEN = "\x1f"

Cell = tuple[str, str, str]
"""Of a route: the kind of request, the backend, the model."""


class Chance(NamedTuple):
    """What is known of a cell: the counts of its beta distribution, the tasks behind it, and requests in a task."""

    successes: float
    failures: float
    n: float
    calls: float

    @property
    def mean(self) -> float:
        """The expected chance of success."""
        return mean(self.successes, self.failures)

    def success(self, confidence: float) -> Success:
        """As a candidate carries it."""
        low, high = interval(self.successes, self.failures, confidence)
        return Success(p=self.mean, mean=self.mean, low=low, high=high, n=self.n, calls=self.calls)


class _Table(NamedTuple):
    """The sums of a route at a moment: ``[successes, failures]`` by cell, by kind, by backend, and of the route.

    ``chances`` are those that were asked for since, each with what a candidate carries of it.
    """

    changes: int
    at_unix_s: float
    cells: dict[Cell, list[float]]
    kinds: dict[str, list[float]]
    places: dict[tuple[str, str], list[float]]
    route: list[float]
    calls: float
    chances: dict[Cell, tuple[Chance, Success]]


class Evidence:
    """Counts verdicts into ``tallies`` and answers what they make likely."""

    def __init__(self, tallies: Tallies) -> None:
        self._tallies = tallies
        self._tables: dict[str, _Table] = {}

    def count(
        self, request: JudgedRequest, *, share: float, success: bool, half_life_s: float, taken_back: bool = False
    ) -> None:
        """Counts a request that answered ``share`` of a task's requests, or takes back that it did."""
        sign = -1.0 if taken_back else 1.0
        self._tallies.add(
            self._name(request),
            (sign * share * success, sign * share * (not success), sign),
            at_unix_s=request.received_unix_s,
            half_life_s=half_life_s,
        )

    def chance(
        self, route: str, cell: Cell, *, now_unix_s: float, half_life_s: float, confidence: float
    ) -> tuple[Chance, Success]:
        """How likely a task succeeds there, and what a candidate carries of it."""
        table = self._table(route, now_unix_s, half_life_s)
        known = table.chances.get(cell)
        if known is None:
            if len(table.chances) >= _MOST_ASKED:
                table.chances.clear()
            chance = _chance(table, cell)
            known = table.chances[cell] = chance, chance.success(confidence)
        return known

    def known(self, route: str, *, now_unix_s: float, half_life_s: float) -> list[tuple[Cell, Chance]]:
        """All cells of a route that have been judged, those with most tasks first."""
        table = self._table(route, now_unix_s, half_life_s)
        chances = [(cell, _chance(table, cell)) for cell in table.cells]
        return sorted(chances, key=lambda known: (-known[1].n, known[0]))

    def _name(self, request: JudgedRequest) -> str:
        kind = request.kind or RequestKind.SHORT_IN_SHORT_OUT
        name = _BETWEEN.join((_PREFIX, *map(_plain, (request.route, kind, request.backend, request.model))))
        if name in self._tallies or len(self._tallies.names(_of_route(request.route))) < _MOST_CELLS:
            return name
        return _BETWEEN.join((_PREFIX, *map(_plain, (request.route, kind, request.backend, _OTHER))))

    def _table(self, route: str, now_unix_s: float, half_life_s: float) -> _Table:
        known = self._tables.get(route)
        if (
            known is None
            or known.changes != self._tallies.changes
            or abs(now_unix_s - known.at_unix_s) > _FRESH_FOR * half_life_s
        ):
            known = self._tables[route] = self._sums(route, now_unix_s, half_life_s)
        return known

    def _sums(self, route: str, now_unix_s: float, half_life_s: float) -> _Table:
        cells: dict[Cell, list[float]] = {}
        kinds: dict[str, list[float]] = {}
        places: dict[tuple[str, str], list[float]] = {}
        whole, requests = [0.0, 0.0], 0.0
        for name in self._tallies.names(_of_route(route)):
            kind, backend, model = name.split(_BETWEEN)[2:]
            sums = self._tallies.total(name, now_unix_s=now_unix_s, half_life_s=half_life_s)
            good, bad, calls = (max(amount, 0.0) for amount in sums)
            cells[kind, backend, model] = [good, bad]
            for margin in (kinds.setdefault(kind, [0.0, 0.0]), places.setdefault((backend, model), [0.0, 0.0]), whole):
                margin[0] += good
                margin[1] += bad
            requests += calls
        tasks = sum(whole)
        calls_each = max((requests + 1) / (tasks + 1), 1.0)
        return _Table(self._tallies.changes, now_unix_s, cells, kinds, places, whole, calls_each, {})


def _of_route(route: str) -> str:
    return _BETWEEN.join((_PREFIX, _plain(route), ""))


def _plain(name: str) -> str:
    return name[:_MOST_CHARACTERS].replace(_BETWEEN, " ")


def _chance(table: _Table, cell: Cell) -> Chance:
    good, bad = table.cells.get(cell, (0.0, 0.0))
    on_route = _smoothed(table.route, 0.5)
    of_kind = _smoothed(table.kinds.get(cell[0]), on_route)
    of_place = _smoothed(table.places.get(cell[1:]), on_route)
    prior = 1 / (1 + math.exp(-(_logit(of_kind) + _logit(of_place) - _logit(on_route))))
    tried = sum(table.places.get(cell[1:], ()))
    prior = min(max(prior, _SURELY, _UNTRIED / (1 + tried)), 1 - _SURELY)
    return Chance(good + _CELL_BELIEF * prior, bad + _CELL_BELIEF * (1 - prior), good + bad, table.calls)


def _smoothed(counts: list[float] | None, prior: float) -> float:
    good, bad = counts or (0.0, 0.0)
    return (good + _MARGIN_BELIEF * prior) / (good + bad + _MARGIN_BELIEF)


def _logit(chance: float) -> float:
    chance = min(max(chance, _SURELY), 1 - _SURELY)
    return math.log(chance / (1 - chance))
