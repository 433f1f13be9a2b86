"""A simulated engine: chunked prefill, continuous batching and a prefix cache, in virtual time.

First come, first served. A step reads at most ``chunk_tokens`` of the prompts that wait, in their order, and writes one
token of every running sequence. A prompt's first token comes with the end of the step that read its last chunk.
"""

from collections import deque
from collections.abc import Sequence
from enum import IntEnum
from heapq import heappop, heappush
from math import ceil, inf, sqrt

from gateway.replay.block_cache import Block, BlockCache
from gateway.replay.engine_model import EngineModel


class Mark(IntEnum):
    """What has happened to a job. Of two marks at the same moment, the smaller came first."""

    FIRST_TOKEN = 0
    FINISHED = 1


class Job:
    """One request at an engine. ``cached_tokens`` is known from its start, the times when they have come."""

    __slots__ = (
        "arrived_s",
        "blocks",
        "cached_tokens",
        "finished_s",
        "first_token_s",
        "index",
        "last_step",
        "output_tokens",
        "prefill_s",
        "prompt_tokens",
        "unread_tokens",
    )

    def __init__(
        self, index: int, *, arrived_s: float, prompt_tokens: int, output_tokens: int, blocks: Sequence[Block]
    ) -> None:
        self.index = index
        self.arrived_s = arrived_s
        self.prompt_tokens = prompt_tokens
        self.output_tokens = max(output_tokens, 1)
        self.blocks = blocks
        self.cached_tokens = 0
        self.unread_tokens = -1
        self.prefill_s = 0.0
        self.first_token_s = inf
        self.finished_s = inf
        self.last_step = 0


Event = tuple[float, Mark, int, Job]
"""When, what, whose number, and who: they sort in the order in which they happened."""


class Engine:
    """One replica. ``advance`` lets time pass and hands out what has happened in it.

    ``prefill_s`` is how long it has read prompts, all in all.
    """

    def __init__(self, model: EngineModel, *, cache_blocks: int) -> None:
        self.model = model
        self.cache = BlockCache(cache_blocks)
        self.now_s = 0.0
        self.prefill_s = 0.0
        self.held_tokens = 0
        self._waiting: deque[Job] = deque()
        self._running: list[tuple[int, int, Job]] = []  # a heap by the step of the last token
        self._steps = 0

    @property
    def waiting(self) -> int:
        """Requests without a first token."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Requests that are being written."""
        return len(self._running)

    def submit(self, job: Job) -> None:
        """The job arrives now; time must have been advanced to its arrival."""
        self._waiting.append(job)

    def advance(self, until_s: float, events: list[Event]) -> None:
        """Runs steps until ``until_s``, pushing onto the heap ``events``; the last step may end later."""
        while self.now_s < until_s:
            if self._waiting and self._has_room(self._waiting[0], 0, 0):
                self._mixed_step(events)
            elif self._running:
                self._decode(until_s, events)
            else:
                if until_s < inf:
                    self.now_s = until_s
                return

    def _mixed_step(self, events: list[Event]) -> None:
        """One step with a chunk of prompts in it."""
        read: list[Job] = []
        prefill_s = self._read(read)
        self.prefill_s += prefill_s
        self.now_s += prefill_s + self.model.decode_s(len(self._running), self.held_tokens)
        self._write(1, events)
        for job in read:
            self.cache.use(job.blocks)
            job.first_token_s = self.now_s
            heappush(events, (self.now_s, Mark.FIRST_TOKEN, job.index, job))
            if job.output_tokens == 1:
                self._finish(job, events)
            else:
                self.held_tokens += job.prompt_tokens
                job.last_step = self._steps + job.output_tokens - 1
                heappush(self._running, (job.last_step, job.index, job))

    def _read(self, read: list[Job]) -> float:
        """Fills the chunk from the prompts that wait; those read to their end go into ``read``."""
        room_tokens = self.model.chunk_tokens
        spent_s = 0.0
        taken_tokens = 0
        while self._waiting and room_tokens > 0 and self._has_room(self._waiting[0], len(read), taken_tokens):
            job = self._waiting[0]
            if job.unread_tokens < 0:
                self._begin(job)
            tokens = min(room_tokens, job.unread_tokens)
            took_s = self.model.prefill_s(tokens, job.prompt_tokens - job.unread_tokens)
            job.prefill_s += took_s
            spent_s += took_s
            job.unread_tokens -= tokens
            room_tokens -= tokens
            if job.unread_tokens == 0:
                read.append(self._waiting.popleft())
                taken_tokens += job.prompt_tokens
        return spent_s

    def _has_room(self, job: Job, taken: int, taken_tokens: int) -> bool:
        """Whether the job may begin beside those that run and ``taken`` more; alone it always may."""
        if len(self._running) + taken >= self.model.most_running:
            return False
        held_tokens = self.held_tokens + taken_tokens
        return held_tokens + job.prompt_tokens <= self.model.most_held_tokens or held_tokens == 0

    def _begin(self, job: Job) -> None:
        matched = self.cache.matched(job.blocks)
        # The last token is always read anew: the first token of the answer follows from it.
        job.cached_tokens = min(matched * self.model.block_tokens, job.prompt_tokens - 1)
        job.unread_tokens = job.prompt_tokens - job.cached_tokens
        self.cache.use(job.blocks[:matched])

    def _decode(self, until_s: float, events: list[Event]) -> None:
        """All steps at once until one that ends a sequence, or the first that ends at ``until_s`` or later."""
        running = len(self._running)
        steps = self._running[0][0] - self._steps
        first_s = self.model.decode_s(running, self.held_tokens)
        growth_s = running * self.model.held_token_s  # each step holds one more token a sequence than the one before
        if until_s < inf:
            steps = min(steps, _steps_until(until_s - self.now_s, first_s, growth_s))
        self.now_s += steps * first_s + growth_s * steps * (steps - 1) / 2
        self._write(steps, events)

    def _write(self, steps: int, events: list[Event]) -> None:
        """Every running sequence has got ``steps`` more tokens; those that are complete leave."""
        running = self._running
        if not running:
            return
        self._steps += steps
        self.held_tokens += steps * len(running)
        while running and running[0][0] <= self._steps:
            job = heappop(running)[2]
            self.held_tokens -= job.prompt_tokens + job.output_tokens - 1
            self._finish(job, events)

    def _finish(self, job: Job, events: list[Event]) -> None:
        job.finished_s = self.now_s
        heappush(events, (self.now_s, Mark.FINISHED, job.index, job))


def _steps_until(seconds: float, first_s: float, growth_s: float) -> int:
    """How many steps it takes to fill ``seconds``: the least n with n first + growth n (n - 1) / 2 at or above it."""
    if growth_s <= 0:
        return max(ceil(seconds / first_s), 1)
    half = first_s - growth_s / 2
    return max(ceil((sqrt(half * half + 2 * growth_s * seconds) - half) / growth_s), 1)
