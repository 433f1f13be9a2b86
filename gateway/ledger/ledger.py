"""Takes the entry of every request: learning at once, everything else in batches off the request path.

A sink that makes entries last gets them at the end of the same turn of the event loop; the others wait a little longer.
An entry is never dropped here. When entries come faster than the background task finds time for them, the request that
fills the ring hands the batch over itself. What a sink then does is its own promise; ``dropped`` counts what a sink
refused by raising.
"""

import asyncio
import logging
from collections.abc import Sequence

from gateway.ledger.entry_sink import EntrySink, PromptSink
from gateway.ledger.redaction import without_words
from gateway.ports import Observer
from gateway.seldom import Seldom
from gateway.types import LedgerEntry

BATCH_ENTRIES = 64

_log = logging.getLogger(__name__)


class EntryLedger:
    """The ``Ledger`` port: calls ``observers`` at once and hands batches to ``sinks`` every ``linger_s`` seconds.

    ``capacity`` is how many entries may wait. They hold no words any more: prompts are large, and requests many.
    """

    def __init__(
        self,
        observers: Sequence[Observer],
        sinks: Sequence[EntrySink],
        *,
        capacity: int = 1024,
        linger_s: float = 0.05,
    ) -> None:
        self._observers = tuple(observers)
        self._sinks = tuple(sink for sink in sinks if not isinstance(sink, PromptSink))
        self._prompt_sinks = tuple(sink for sink in sinks if isinstance(sink, PromptSink))
        self._capacity = capacity
        self._linger_s = linger_s
        self._waiting: list[LedgerEntry] = []
        self._fresh: list[LedgerEntry] = []
        self._filled = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._complain = Seldom(_log)
        self.recorded = 0
        self.dropped = 0
        self.observer_failures = 0

    def observe_with(self, observers: Sequence[Observer]) -> None:
        """Replaces the observers, as a reloaded policy file does."""
        self._observers = tuple(observers)

    def record(self, entry: LedgerEntry) -> None:
        """Takes the entry and returns at once; never raises because of an observer or a sink."""
        self.recorded += 1
        for observer in self._observers:
            try:
                observer.observe(entry)
            except Exception as error:  # noqa: BLE001  # a plugin's bug must not take the answer with it
                self.observer_failures += 1
                self._complain_of("observer", observer, error)
        if not self._waiting:
            self._filled.set()
        kept = without_words(entry)
        self._waiting.append(kept)
        if self._prompt_sinks:
            self._make_last(kept)
        if len(self._waiting) >= self._capacity or self._closed:
            self.flush()

    def flush(self) -> None:
        """Hands everything that waits to the sinks now: before a scrape, and in tests."""
        self._hand_over_fresh()
        while self._waiting:
            self._hand_over()

    def start(self) -> None:
        """Starts the background task on the running loop."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="headrace-ledger")

    async def close(self) -> None:
        """Stops the task, hands over what waits and closes the sinks; idempotent.

        Entries that come later are handed to the closed sinks, which count them as lost.
        """
        self._closed = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self.flush()
        await asyncio.gather(*map(self._close_sink, (*self._sinks, *self._prompt_sinks)))

    def _make_last(self, entry: LedgerEntry) -> None:
        self._fresh.append(entry)
        if self._task is None:
            self._hand_over_fresh()
        elif len(self._fresh) == 1:
            self._task.get_loop().call_soon(self._hand_over_fresh)

    def _hand_over_fresh(self) -> None:
        batch, self._fresh = self._fresh, []
        if batch:
            self._give(self._prompt_sinks, batch)

    async def _run(self) -> None:
        while True:
            await self._filled.wait()
            await asyncio.sleep(self._linger_s)
            while self._waiting:
                self._hand_over()
                await asyncio.sleep(0)  # requests go first: one batch at a time

    def _hand_over(self) -> None:
        batch = self._waiting[:BATCH_ENTRIES]
        del self._waiting[:BATCH_ENTRIES]
        if not self._waiting:
            self._filled.clear()
        self._give(self._sinks, batch)

    def _give(self, sinks: Sequence[EntrySink], batch: Sequence[LedgerEntry]) -> None:
        for sink in sinks:
            try:
                sink.take(batch)
            except ExceptionGroup as lost:
                self.dropped += len(lost.exceptions)
                self._complain_of("sink", sink, lost.exceptions[0])
            except Exception as error:  # noqa: BLE001  # one sink's bug must not blind the others
                self.dropped += len(batch)
                self._complain_of("sink", sink, error)

    async def _close_sink(self, sink: EntrySink) -> None:
        try:
            await sink.close()
        except Exception as error:  # noqa: BLE001  # the other sinks still have to drain
            self._complain_of("sink", sink, error)

    def _complain_of(self, role: str, who: object, error: Exception) -> None:
        """Names the classes only: an exception's text may quote the entry."""
        self._complain("%s %s failed with %s", role, type(who).__qualname__, type(error).__qualname__)
