"""Who takes batches up: one desk a process. It claims what nobody runs, a few at a time, and runs it."""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Callable

from gateway.batching.batch import Batch
from gateway.batching.batch_run import BatchRun, Workshop
from gateway.batching.batch_store import Free
from gateway.clock import until_set
from gateway.errors import ConfigurationError
from gateway.fault import place_of
from gateway.seldom import Seldom
from gateway.stores.ledger_lost import LedgerLost

MOST_RUNNING = 8
LOOK_EVERY_S = 2.0
SWEEP_EVERY_S = 60.0
_REST_S = 30.0

_log = logging.getLogger(__name__)


class BatchDesk:
    """See the module.

    Args:
        shop: what batches are run with.
        there: whether there is a database at all: where nobody has ever left a file, nobody looks for one.
    """

    def __init__(self, shop: Workshop, there: Callable[[], bool]) -> None:
        self._shop = shop
        self._there = there
        self._owner = secrets.token_hex(8)
        self._runs: dict[str, tuple[str, BatchRun, asyncio.Task[None]]] = {}
        self._rests: dict[str, float] = {}
        self._going = ""
        self._woken = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self._swept_s = 0.0
        self._complain = Seldom(_log)

    @property
    def running(self) -> int:
        """Batches that this process runs now."""
        return len(self._runs)

    def start(self) -> None:
        """Begins to look for batches, those too that others have left."""
        if self._watch is None:
            self._watch = asyncio.create_task(self._look(), name="headrace-batches")

    def wake(self, batch_id: str = "") -> None:
        """There is something to do, with a batch that is named."""
        known = self._runs.get(batch_id)
        if known is not None:
            known[1].look()
        self._woken.set()

    async def close(self) -> None:
        """Leaves all batches to whoever comes next; idempotent."""
        watch, self._watch = self._watch, None
        tasks = [task for _, _, task in self._runs.values()]
        for task in (*tasks, *([watch] if watch is not None else [])):
            task.cancel()
        if tasks or watch is not None:
            await asyncio.wait([*tasks, *([watch] if watch is not None else [])])
        await self._shop.idle.close()

    async def _look(self) -> None:
        while True:
            if self._there() and not self._shop.pipeline.draining:
                try:
                    await self._claim()
                    await self._sweep()
                except (LedgerLost, ConfigurationError) as error:
                    self._complain("batches cannot be looked for: %s", error)
                except Exception as error:  # noqa: BLE001  # a bug must not end all batches there will be
                    self._complain("%s in %s", type(error).__name__, place_of(error))
            await until_set(self._woken, self._shop.clock, at_most_s=LOOK_EVERY_S)
            self._woken.clear()

    async def _claim(self) -> None:
        now_unix_s = self._shop.clock.unix_s()
        free = await self._shop.batches.free(now_unix_s)
        while (chosen := self._next(free, now_unix_s)) is not None:
            if len(self._runs) >= MOST_RUNNING:
                self._make_room(chosen.tenant)
                return
            free.remove(chosen)
            until_unix_s = now_unix_s + self._shop.bounds.lease_s
            batch = await self._shop.batches.claim(chosen.id, self._owner, now_unix_s, until_unix_s)
            if batch is not None:
                self._begin(batch)

    def _next(self, free: list[Free], now_unix_s: float) -> Free | None:
        """The oldest of the tenant that has the fewest here."""
        self._rests = {name: until_s for name, until_s in self._rests.items() if until_s > now_unix_s}
        having = Counter(tenant for tenant, _, _ in self._runs.values())
        open_ones = [one for one in free if one.id not in self._rests and one.id not in self._runs]
        return min(open_ones, key=lambda one: having[one.tenant], default=None)

    def _make_room(self, tenant: str) -> None:
        """Where a tenant has none here, of who has the most the newest goes back: its lines may wait for a day."""
        having = Counter(name for name, _, _ in self._runs.values())
        (richest, most) = having.most_common(1)[0]
        if tenant in having or most == 1 or self._going in self._runs:
            return
        *_, self._going = (batch_id for batch_id, (name, _, _) in self._runs.items() if name == richest)
        self._runs[self._going][2].cancel()

    def _begin(self, batch: Batch) -> None:
        run = BatchRun(self._shop, batch, self._owner)
        task = asyncio.create_task(run.run(), name=f"headrace-{batch.id}")
        self._runs[batch.id] = (batch.tenant, run, task)
        task.add_done_callback(lambda done: self._ended(batch.id, done))

    def _ended(self, batch_id: str, task: asyncio.Task[None]) -> None:
        self._runs.pop(batch_id, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._rests[batch_id] = self._shop.clock.unix_s() + _REST_S
            if isinstance(error, LedgerLost | ConfigurationError):
                self._complain("a batch has to wait for its database: %s", error)
            else:  # the class and the place, never the text: it may quote what a client wrote
                _log.error("%s: %s in %s", batch_id, type(error).__name__, place_of(error))
        self._woken.set()

    async def _sweep(self) -> None:
        """Now and then what is past its time goes, a little at a time."""
        now_s = self._shop.clock.now_s()
        if now_s - self._swept_s < SWEEP_EVERY_S and self._swept_s:
            return
        now_unix_s = self._shop.clock.unix_s()
        if not await self._shop.files.delete_past(now_unix_s):
            self._swept_s = now_s
        await self._shop.batches.forget(now_unix_s - self._shop.bounds.kept_s)
