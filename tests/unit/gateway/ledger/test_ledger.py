import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from gateway.ledger.ledger import BATCH_ENTRIES, EntryLedger
from gateway.types import LedgerEntry

MakeEntry = Callable[..., LedgerEntry]


@dataclass
class Keeper:
    """A sink that keeps what it took."""

    taken: list[LedgerEntry] = field(default_factory=list)
    batch_sizes: list[int] = field(default_factory=list)
    closed: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, batch: Sequence[LedgerEntry]) -> None:
        """Keeps the batch."""
        self.taken.extend(batch)
        self.batch_sizes.append(len(batch))
        self.arrived.set()

    async def close(self) -> None:
        """Counts."""
        self.closed += 1

    @property
    def ids(self) -> list[str]:
        """The ids of what it took."""
        return [entry.arrival.id for entry in self.taken]


@dataclass
class Learner:
    """An observer that remembers what it saw."""

    seen: list[LedgerEntry] = field(default_factory=list)

    def observe(self, entry: LedgerEntry) -> None:
        """Remembers."""
        self.seen.append(entry)


class Broken:
    """An observer and a sink that raises, quoting what it was given."""

    def observe(self, entry: LedgerEntry) -> None:
        """Raises."""
        raise ValueError(f"cannot learn from {entry}")

    def take(self, batch: Sequence[LedgerEntry]) -> None:
        """Raises."""
        raise ValueError(f"cannot take {batch}")

    async def close(self) -> None:
        """Raises."""
        raise ValueError("cannot close")


async def test_observers_learn_at_once_and_sinks_later(make_entry: MakeEntry) -> None:
    """Learning is done when record returns; sinks get nothing on the request's time."""
    learner, keeper = Learner(), Keeper()
    ledger = EntryLedger([learner], [keeper])
    entry = make_entry()
    ledger.record(entry)
    assert ([entry], []) == (learner.seen, keeper.taken)
    ledger.flush()
    assert ["req-0"] == keeper.ids


async def test_background_task_hands_over_by_itself(make_entry: MakeEntry) -> None:
    """With the task started, nobody needs to flush."""
    keeper = Keeper()
    ledger = EntryLedger([], [keeper], linger_s=0)
    ledger.start()
    ledger.record(make_entry(1))
    await keeper.arrived.wait()
    keeper.arrived.clear()
    ledger.record(make_entry(2))
    await keeper.arrived.wait()
    await ledger.close()
    assert ["req-1", "req-2"] == keeper.ids


async def test_entries_come_once_in_order_and_in_bounded_batches(make_entry: MakeEntry) -> None:
    """A burst is cut into batches, so that no hand-over holds the loop for long."""
    keeper = Keeper()
    ledger = EntryLedger([], [keeper])
    for number in range(BATCH_ENTRIES * 2 + 3):
        ledger.record(make_entry(number))
    ledger.flush()
    assert [f"req-{number}" for number in range(BATCH_ENTRIES * 2 + 3)] == keeper.ids
    assert [BATCH_ENTRIES, BATCH_ENTRIES, 3] == keeper.batch_sizes


async def test_full_ring_is_handed_over_and_nothing_is_lost(make_entry: MakeEntry) -> None:
    """When the task finds no time, the request that fills the ring pays for the batch: a row for every request."""
    keeper = Keeper()
    ledger = EntryLedger([], [keeper], capacity=4)
    for number in range(10):
        ledger.record(make_entry(number))
    assert 8 == len(keeper.taken)
    await ledger.close()
    assert (10, 10, 0) == (len(keeper.taken), ledger.recorded, ledger.dropped)


async def test_close_drains_and_closes_each_sink(make_entry: MakeEntry) -> None:
    """Entries recorded right before the shutdown reach the sinks."""
    keeper = Keeper()
    ledger = EntryLedger([], [keeper], linger_s=3600)
    ledger.start()
    ledger.record(make_entry(1))
    await ledger.close()
    assert (["req-1"], 1) == (keeper.ids, keeper.closed)


async def test_latecomers_are_handed_over_too(make_entry: MakeEntry) -> None:
    """A request that ends after the close does not vanish: the sinks get it and answer for it."""
    keeper = Keeper()
    ledger = EntryLedger([], [keeper])
    await ledger.close()
    ledger.record(make_entry(9))
    assert ["req-9"] == keeper.ids


async def test_broken_plugin_breaks_nobody_else(
    make_entry: MakeEntry, marked_entry: LedgerEntry, marker: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An observer or sink that raises is named in the log without the entry's words, and the others still get all."""
    learner, keeper = Learner(), Keeper()
    ledger = EntryLedger([Broken(), learner], [Broken(), keeper])
    with caplog.at_level(logging.DEBUG):
        ledger.record(marked_entry)
        ledger.record(make_entry(1))
        await ledger.close()
    assert (2, 2) == (len(learner.seen), len(keeper.taken))
    assert (2, 2) == (ledger.observer_failures, ledger.dropped)
    assert "observer Broken failed with ValueError" in caplog.text
    assert marker not in caplog.text


async def test_lasting_failure_is_logged_once_a_minute(make_entry: MakeEntry, caplog: pytest.LogCaptureFixture) -> None:
    """A thousand failures of one plugin make one line."""
    ledger = EntryLedger([Broken()], [])
    for number in range(1000):
        ledger.record(make_entry(number))
    assert (1000, 1) == (ledger.observer_failures, len(caplog.records))


async def test_sinks_never_see_words(marked_entry: LedgerEntry, marker: str) -> None:
    """Prompt, stop strings, raw body and error details are gone from what a sink is given."""
    keeper = Keeper()
    ledger = EntryLedger([], [keeper])
    ledger.record(marked_entry)
    ledger.flush()
    assert marker in repr(marked_entry)
    assert marker not in repr(keeper.taken)


async def test_sinks_see_everything_else(make_entry: MakeEntry) -> None:
    """An entry without words goes through unchanged."""
    keeper = Keeper()
    ledger = EntryLedger([], [keeper])
    ledger.record(make_entry())
    ledger.flush()
    assert [make_entry()] == keeper.taken


async def test_reload_replaces_the_observers(make_entry: MakeEntry) -> None:
    """After a reload the new policies learn and the old ones rest."""
    old, new = Learner(), Learner()
    ledger = EntryLedger([old], [])
    ledger.record(make_entry(1))
    ledger.observe_with([new])
    ledger.record(make_entry(2))
    assert (["req-1"], ["req-2"]) == ([e.arrival.id for e in old.seen], [e.arrival.id for e in new.seen])


class PromptKeeper(Keeper):
    """A sink that makes entries last."""

    at_once = True


async def test_who_makes_entries_last_has_them_one_turn_later(make_entry: MakeEntry) -> None:
    """All of a turn together, long before the others; each once, whoever flushes."""
    prompt, patient = PromptKeeper(), Keeper()
    ledger = EntryLedger([], [patient, prompt], linger_s=3600)
    ledger.start()
    for number in range(3):
        ledger.record(make_entry(number))
    assert [] == prompt.ids
    await asyncio.sleep(0)
    assert (["req-0", "req-1", "req-2"], [3], []) == (prompt.ids, prompt.batch_sizes, patient.ids)
    ledger.record(make_entry(3))
    ledger.flush()
    await asyncio.sleep(0)
    await ledger.close()
    assert 4 == len(prompt.ids) == len(patient.ids)
    assert (1, 1) == (prompt.closed, patient.closed)
