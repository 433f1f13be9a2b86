"""Decides which rows the next decode call computes.

First come, first served: a request is admitted when slots for all its choices and the cells that it may come to need
are free, and keeps them to its end. In each step every running choice gets its one row; what is left of the step's
tokens goes to the prompts of the admitted, oldest first, so that a long prompt does not hold up a stream for longer
than one step.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from embedded_engine.characters import Characters
from embedded_engine.errors import QueueFull
from embedded_engine.intake import Prepared
from embedded_engine.kernels.port import Row
from embedded_engine.stops import StopStrings

__all__ = ["Choice", "Planned", "Running", "Scheduler"]


@dataclass(slots=True, kw_only=True)
class Choice:
    """One answer in the making.

    Attributes:
        index: Its number within the request.
        slot: The sequence that holds its cells; None when it is over.
        characters: Its bytes on their way to characters.
        stops: Its characters on their way to the client.
        drawn_tokens: How many tokens were drawn, an end token excluded.
        unreported_tokens: How many of them since the last text went out.
        next_token: The token last drawn, not yet decoded.
    """

    index: int
    slot: int | None
    characters: Characters
    stops: StopStrings
    drawn_tokens: int = 0
    unreported_tokens: int = 0
    next_token: int = -1


@dataclass(slots=True, kw_only=True)
class Running:
    """An admitted request. `prefilled_tokens` of its prompt are decoded, into the slot of its first choice."""

    request: Prepared
    choices: list[Choice]
    prefilled_tokens: int = 0

    @property
    def over(self) -> bool:
        """Whether every choice is."""
        return all(choice.slot is None for choice in self.choices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A row and whose it is: one choice's next token, or, with no choice, a token of the prompt."""

    row: Row
    running: Running
    choice: Choice | None


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

    def plan(self) -> list[Planned]:
        """Admit what fits, and say which rows come next; empty when there is nothing to do."""
        self._admit_waiting()
        planned = [row for running in self.running.values() for row in _decode_rows(running)]
        for running in self.running.values():
            planned += _prompt_rows(running, self.step_tokens - len(planned))
        return planned

    def drop_queued(self, number: int) -> None:
        """Take a request out of the queue, if it is there."""
        self.queue = deque(request for request in self.queue if request.id != number)

    def free(self, choice: Choice) -> int | None:
        """The choice is over: its slot may be given to another. Returns the slot, None if it was free already."""
        slot, choice.slot = choice.slot, None
        if slot is not None:
            self.free_slots.append(slot)
            self.free_slots.sort()
        return slot

    def forget(self, running: Running) -> None:
        """The request is over, all its choices freed: its cells may be promised to another."""
        del self.running[running.request.id]
        self.free_kv_tokens += running.request.kv_tokens

    def _admit_waiting(self) -> None:
        while self.queue and self._fits(self.queue[0]):
            self._admit(self.queue.popleft())

    def _fits(self, request: Prepared) -> bool:
        return request.n <= len(self.free_slots) and request.kv_tokens <= self.free_kv_tokens

    def _admit(self, request: Prepared) -> None:
        slots, self.free_slots = self.free_slots[: request.n], self.free_slots[request.n :]
        self.free_kv_tokens -= request.kv_tokens
        self.running[request.id] = Running(
            request=request,
            choices=[
                Choice(index=index, slot=slot, characters=Characters(), stops=StopStrings(request.stop))
                for index, slot in enumerate(slots)
            ],
        )


def _decode_rows(running: Running) -> Iterator[Planned]:
    prompt_tokens = len(running.request.prompt)
    if running.prefilled_tokens == prompt_tokens:
        for choice in running.choices:
            if choice.slot is not None:
                row = Row(choice.slot, choice.next_token, prompt_tokens + choice.drawn_tokens - 1, wants_logits=True)
                yield Planned(row=row, running=running, choice=choice)


def _prompt_rows(running: Running, room: int) -> Iterator[Planned]:
    prompt, start = running.request.prompt, running.prefilled_tokens
    slot = running.choices[0].slot
    if slot is not None:
        for position in range(start, min(start + max(room, 0), len(prompt))):
            row = Row(slot, prompt[position], position, wants_logits=position == len(prompt) - 1)
            yield Planned(row=row, running=running, choice=None)
