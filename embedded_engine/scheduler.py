"""Decides who runs, and where.

Who comes first: each request has a time by which it would be done if it began when it came and were alone, and the
earliest goes first. So short work overtakes long work, and nobody waits for ever: who comes later than a request's own
work takes cannot overtake it. Nobody overtakes otherwise, or requests for many slots would never find enough free.

A request is admitted when there are slots for all its choices, and a lane with cells for its prompt and a little of its
answers. When a lane runs out of cells, the least urgent there loses its own and waits again; its tokens, its text and
its draws go on where they were once its cells are back. They are saved to the prefix cache, and at worst read again.
"""

import heapq
from bisect import insort
from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple

from embedded_engine.choice import Choice, Running
from embedded_engine.errors import QueueFull
from embedded_engine.lane_choice import LaneChoice
from embedded_engine.lane_costs import LaneCosts
from embedded_engine.memory import CellMemory
from embedded_engine.prefix_cache import PrefixCache

__all__ = ["Scheduler"]

_STEPS_BETWEEN_MOVES = 8


class _Waiting(NamedTuple):
    """A place in the queue: of a whole request, or of one choice that lost its cells."""

    due_s: float
    order: int
    running: Running
    choice: Choice | None


class Scheduler:
    """The queue and the slots.

    Args:
        memory: Where the cells are.
        cache: What was computed before.
        costs: What a lane's rows cost.
        slots: Choices at once.
        queue_limit: Requests that may wait for their first slot.
        begin: Makes a request's choices.
    """

    def __init__(
        self,
        memory: CellMemory,
        cache: PrefixCache,
        costs: LaneCosts,
        *,
        slots: int,
        queue_limit: int,
        begin: Callable[[Running], list[Choice]],
    ) -> None:
        self._memory = memory
        self._cache = cache
        self._lane_choice = LaneChoice(memory, costs)
        self._steps_to_move = _STEPS_BETWEEN_MOVES
        self._queue_limit = queue_limit
        self._begin = begin
        self._waiting: list[_Waiting] = []
        self._order = count()
        self.slots = slots
        self.requests: dict[int, Running] = {}
        self.placed: list[Choice] = []
        """Choices with a slot, most urgent first."""
        self.preempted = 0
        """Choices that lost their cells, since the start."""

    @property
    def queued(self) -> int:
        """Requests that wait for their first slot."""
        return sum(not waiting.running.choices for waiting in self._waiting)

    def add(self, running: Running, now_s: float) -> None:
        """Take a request in: at once if it fits and nobody waits before it, else into the queue.

        Raises:
            QueueFull: Too many wait already.
        """
        self.requests[running.request.id] = running
        self._wait(running, None)
        self.admit(now_s)
        if self.queued > self._queue_limit:
            self.drop(running)
            raise QueueFull(f"{self._queue_limit} requests are waiting already; try again later")

    def admit(self, now_s: float) -> None:
        """Give slots to those who wait, as far as they go."""
        while self._waiting and self._place(self._waiting[0], now_s):
            heapq.heappop(self._waiting)

    def make_room(self) -> None:
        """See to it that every choice that decodes has a cell for its next token."""
        for lane in self._memory.lanes:
            here = [choice for choice in self.placed if self._memory.lane_of(_slot(choice)) == lane]
            while len(here) > 1 and sum(choice.decodes for choice in here) > self._memory.free_tokens(lane):
                self._preempt(here.pop())
                here = [choice for choice in here if choice.slot is not None]

    def spread(self) -> None:
        """Now and then, move the choice that makes the steps most longer where it is into another lane."""
        self._steps_to_move -= 1
        if self._steps_to_move > 0:
            return
        self._steps_to_move = _STEPS_BETWEEN_MOVES
        move = self._lane_choice.move(self.placed)
        if move is not None and (target := self._memory.move(_slot(move.choice), move.lane)) is not None:
            self._cache.moved(_slot(move.choice), target)
            move.choice.slot = target

    def release(self, choice: Choice, *, keep: bool) -> None:
        """A choice needs its slot no more; what was computed for it may be kept."""
        if choice.slot is None:
            return
        if keep:
            self._cache.keep(choice.running.request.scope, choice.tokens[: choice.computed], choice.slot)
        self._cache.let_go(choice.slot)
        self._memory.release(choice.slot)
        choice.slot = None
        self.placed.remove(choice)

    def drop(self, running: Running) -> None:
        """A request is over: its slots and its places in the queue are free."""
        for choice in running.choices:
            self.release(choice, keep=False)
        self._waiting = [waiting for waiting in self._waiting if waiting.running is not running]
        heapq.heapify(self._waiting)
        self.requests.pop(running.request.id, None)

    def share_prompt(self, running: Running) -> None:
        """The first choice has read the prompt: let the others have it, and whoever comes with the same beginning."""
        first, *others = running.choices
        running.prompt_is_read = True
        for choice in others:
            self._memory.share(_slot(first), _slot(choice), first.computed)
            choice.computed = first.computed
        self._cache.hold(running.request.scope, running.request.prompt, _slot(first))

    def expired(self, now_s: float) -> Iterator[Running]:
        """Requests whose time is over."""
        return (running for running in tuple(self.requests.values()) if running.expires_s <= now_s)

    def _wait(self, running: Running, choice: Choice | None) -> None:
        heapq.heappush(self._waiting, _Waiting(running.due_s, next(self._order), running, choice))

    def _place(self, waiting: _Waiting, now_s: float) -> bool:
        running, choice = waiting.running, waiting.choice
        request = running.request
        tokens = request.prompt if choice is None else choice.tokens
        slots = request.n if choice is None else 1
        if len(self.placed) + slots > self.slots:
            return False
        prefix = None if request.scores_prompt else self._cache.find(request.scope, tokens[:-1])
        room = request.max_tokens if choice is None else choice.room_tokens
        lane = self._lane_choice.best(self.placed, len(tokens), room, slots, prefix)
        if lane is None:
            return False
        if choice is None:
            running.choices = running.choices or self._begin(running)
            running.placed_s = running.placed_s or now_s
        placed = running.choices if choice is None else [choice]
        for one in placed:
            one.slot = self._memory.claim(lane)
            insort(self.placed, one, key=_due_s)
        placed[0].computed = self._cache.load(prefix, _slot(placed[0])) if prefix is not None else 0
        if not running.prompt_is_read:
            running.cached_tokens = placed[0].computed
        return True

    def _preempt(self, choice: Choice) -> None:
        """Take a choice's cells away, and let it wait for others."""
        running = choice.running
        self.preempted += 1
        if running.prompt_is_read:
            self.release(choice, keep=True)
            choice.computed = 0
            self._wait(running, choice)
            return
        for one in running.choices:
            self.release(one, keep=one is running.choices[0])
            one.computed = 0
        self._wait(running, None)


def _due_s(choice: Choice) -> float:
    return choice.running.due_s


def _slot(choice: Choice) -> int:
    return -1 if choice.slot is None else choice.slot
