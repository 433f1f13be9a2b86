"""What one line of a report adds up, by columns: loops of C over a page of rows, since a ledger has millions."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.accounts.log_histogram import LogHistogram
from gateway.types import Status

TaskKey = int
"""See ``gateway.stores.task_key``."""

TIMES = ("ttft", "itl", "tpot", "e2e")
"""Time to first token, from burst to burst, per later output token, and from arrival to end, in seconds."""

WASTES = ("lost", "abandoned", "outrun", "truncated")
"""Paid for in vain: the backend failed; the client left; another backend was faster; the answer broke off."""

_WASTED = {Status.TRUNCATED.value: "truncated", Status.CLIENT_GONE.value: "abandoned"}
_FIELDS = 13
_OUTRUN = "Outrun"
_OK = Status.OK.value


def _no_sums() -> defaultdict[TaskKey, int]:
    return defaultdict(int)


@dataclass(slots=True)
class Spending:
    """What the tasks of a report have spent: the known part, and who has an unknown one beside it."""

    pico_usd: defaultdict[TaskKey, int] = field(default_factory=_no_sums)
    unpriced: set[TaskKey] = field(default_factory=set)
    _page: defaultdict[TaskKey, int] = field(default_factory=_no_sums)

    def add(self, keys: Iterable[TaskKey], costs: Iterable[int | None]) -> None:
        """Adds what requests or attempts of these tasks cost."""
        known = self._page
        for key, cost in zip(keys, costs, strict=True):
            known[key] += cost or 0
            if cost is None:
                self.unpriced.add(key)

    def end_page(self) -> None:
        """Brings the page's sums to the others: requests of a task come close together, and a small table is fast."""
        known = self.pico_usd
        for key, cost in self._page.items():
            known[key] += cost
        self._page.clear()

    def include(self, other: "Spending") -> None:
        """Adds what was spent in other requests."""
        for key, cost in other.pico_usd.items():
            self.pico_usd[key] += cost
        self.unpriced |= other.unpriced


@dataclass(slots=True)
class Group:
    """One line. Money is in pico-dollars; ``retry_pico_usd`` and the wastes are parts of ``pico_usd``."""

    requests: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    attempts: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    pico_usd: int = 0
    retry_pico_usd: int = 0
    unpriced_attempts: int = 0
    wasted: Counter[str] = field(default_factory=Counter)
    times: dict[str, LogHistogram] = field(default_factory=lambda: {name: LogHistogram() for name in TIMES})
    tasks: set[TaskKey] = field(default_factory=set)

    def add_requests(self, rows: Sequence[tuple[Any, ...]], spending: Spending, alone: dict[int, TaskKey]) -> None:
        """Takes rows of ``selection.requests_query``; ``alone`` are the judged ones that name no task, by their seq."""
        _, seqs, keys, statuses, tries, prompt, cached, output, costs, *times = list(zip(*rows, strict=True))[:_FIELDS]
        self.requests += len(rows)
        self.statuses.update(statuses)
        self.attempts += tries.count(1)  # those of requests with several are counted one by one
        self.prompt_tokens += sum(prompt)
        self.cached_tokens += sum(cached)
        self.output_tokens += sum(output)
        self.pico_usd += sum(filter(None, costs))
        self.unpriced_attempts += costs.count(None)
        for name, steps in zip(TIMES, times, strict=True):
            self.times[name].add(steps)
        if statuses.count(_OK) < len(rows):
            self._waste_requests(zip(statuses, costs, strict=True))
        if None not in keys:
            spending.add(keys, costs)
            self.tasks.update(keys)
        else:
            spending.add(filter(None, keys), (cost for key, cost in zip(keys, costs, strict=True) if key))
            self.tasks.update(filter(None, keys))
        if alone:
            self._add_alone(seqs, costs, spending, alone)

    def add_attempts(self, rows: Sequence[tuple[Any, ...]], spending: Spending, alone: dict[int, TaskKey]) -> None:
        """Takes rows of ``selection.attempts_query``: the attempts of requests that took several."""
        for row in rows:
            _, seq, _, named, status, error, serves, prompt, cached, output, cost, *_ = row
            self.attempts += 1
            self.prompt_tokens += prompt
            self.cached_tokens += cached
            self.output_tokens += output
            key = named or alone.get(seq)
            if key is not None:
                spending.add((key,), (cost,))
                self.tasks.add(key)
            if not serves:
                self.retries += 1
            if cost is None:
                self.unpriced_attempts += 1
                continue
            self.pico_usd += cost
            if not serves:
                self.retry_pico_usd += cost
            if error == _OUTRUN or (status == _OK and not serves):
                self.wasted["outrun"] += cost
            elif status != _OK:
                self.wasted[_WASTED.get(status, "lost")] += cost

    def include(self, other: "Group") -> None:
        """Adds another line to this one, all but its tasks, which may be those of both."""
        self.requests += other.requests
        self.statuses.update(other.statuses)
        self.attempts += other.attempts
        self.retries += other.retries
        self.prompt_tokens += other.prompt_tokens
        self.cached_tokens += other.cached_tokens
        self.output_tokens += other.output_tokens
        self.pico_usd += other.pico_usd
        self.retry_pico_usd += other.retry_pico_usd
        self.unpriced_attempts += other.unpriced_attempts
        self.wasted.update(other.wasted)
        for name, times in self.times.items():
            times.include(other.times[name])

    def _waste_requests(self, ended: Iterator[tuple[str, int | None]]) -> None:
        for status, cost in ended:
            if status != _OK and cost:
                self.wasted[_WASTED.get(status, "lost")] += cost

    def _add_alone(
        self, seqs: Sequence[int], costs: Sequence[int | None], spending: Spending, alone: dict[int, TaskKey]
    ) -> None:
        for seq, cost in zip(seqs, costs, strict=True):
            key = alone.get(seq)
            if key is not None:
                spending.add((key,), (cost,))
                self.tasks.add(key)
