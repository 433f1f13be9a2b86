"""Decides which rows the next decode call computes.

First come, first served: a request is admitted when slots for all its choices and the cells that it may come to need
are free, and keeps them to its end. In each step every choice that decodes gets its next row and its drafted ones; what
is left of the step's tokens goes to the prompts of the admitted, oldest first, so that a long prompt does not hold up a
stream for longer than one step.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from embedded_engine.choice import Choice, Running
from embedded_engine.errors import QueueFull
from embedded_engine.intake import Prepared
from embedded_engine.kernels.port import Row

__all__ = ["Planned", "Scheduler"]

PlanDrafts = Callable[[Sequence[Choice], int], Sequence[tuple[int, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The rows of one choice in a step.

    Attributes:
        choice: Whose.
        rows: Its next tokens, and after them the drafted ones.
        drafted: So many of the last rows are drafts.
        first_logits: The number, in the whole step, of its first row that has logits; None where none has.
    """

    choice: Choice
    rows: list[Row]
    drafted: tuple[int, ...]
    first_logits: int | None


@dataclass(slots=True, kw_only=True)
class Scheduler:
    """The queue, the slots and the cells.

    Attributes:
        slots: Choices at once.
        kv_tokens: Cells for all of them.
        step_tokens: Rows in a step.
        queue_limit: Requests that may wait.
    """

    slots: int
    kv_tokens: int
    step_tokens: int
    queue_limit: int
    begin: Callable[[Prepared], Running]
    queue: deque[Prepared] = field(default_factory=deque)
    running: dict[int, Running] = field(default_factory=dict)
    free_slots: list[int] = field(default_factory=list)
    free_kv_tokens: int = 0

    def __post_init__(self) -> None:
        self.free_slots = list(range(self.slots))
        self.free_kv_tokens = self.kv_tokens

    def add(self, request: Prepared) -> None:
        """Admit a request if it fits and nobody waits before it; else it waits.

        Raises:
            QueueFull: Too many wait already.
        """
        self._admit_waiting()
        if not self.queue and self._fits(request):
            self._admit(request)
            return
        if len(self.queue) >= self.queue_limit:
            raise QueueFull(f"{len(self.queue)} requests are waiting already; try again later")
        self.queue.append(request)

    def plan(self, plan_drafts: PlanDrafts) -> list[Planned]:
        """Admit what fits, and say which rows come next; empty when there is nothing to do."""
        self._admit_waiting()
        choices = [choice for running in self.running.values() for choice in running.choices]
        decoding = [choice for choice in choices if choice.decodes]
        drafts = plan_drafts(decoding, self.step_tokens - len(decoding)) if decoding else ()
        planned: list[Planned] = []
        room = self.step_tokens
        for choice, drafted in zip(decoding, drafts, strict=True):
            planned.append(_rows(choice, 1, drafted, at=self.step_tokens - room))
            room -= len(planned[-1].rows)
        for running in self.running.values():
            if not running.prompt_is_read and room:
                choice = running.choices[0]
                count = min(room, len(choice.tokens) - choice.computed)
                planned.append(_rows(choice, count, (), at=self.step_tokens - room))
                room -= count
        return planned

    def drop_queued(self, number: int) -> None:
        """Take a request out of the queue, if it is there."""
        self.queue = deque(request for request in self.queue if request.id != number)

    def free(self, choice: Choice) -> int | None:
        """The slot that the choice had; it may be given to another. None if it had none."""
        slot, choice.slot = choice.slot, None
        if slot is not None:
            self.free_slots.append(slot)
            self.free_slots.sort()
        return slot

    def forget(self, running: Running) -> None:
        """The request is over: its cells may be given to others."""
        self.free_kv_tokens += running.request.kv_tokens
        del self.running[running.request.id]

    def _admit_waiting(self) -> None:
        while self.queue and self._fits(self.queue[0]):
            self._admit(self.queue.popleft())

    def _fits(self, request: Prepared) -> bool:
        return len(self.free_slots) >= request.n and self.free_kv_tokens >= request.kv_tokens

    def _admit(self, request: Prepared) -> None:
        self.free_kv_tokens -= request.kv_tokens
        running = self.begin(request)
        for choice in running.choices:
            choice.slot = self.free_slots.pop(0)
        self.running[request.id] = running


def _rows(choice: Choice, count: int, drafted: tuple[int, ...], *, at: int) -> Planned:
    """`count` tokens that are to be computed, and drafted ones after the last."""
    slot = choice.slot if choice.slot is not None else -1
    start, end = choice.computed, choice.computed + count
    last = len(choice.tokens) - 1
    tokens = (*choice.tokens[start:end], *drafted)
    rows = [Row(slot, token, start + index, start + index >= last) for index, token in enumerate(tokens)]
    return Planned(
        choice=choice, rows=rows, drafted=drafted, first_logits=at + count - 1 if end == len(choice.tokens) else None
    )
