"""The rows of one step, choice by choice."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from embedded_engine.choice import Choice
from embedded_engine.kernels.port import Row
from embedded_engine.lane_costs import LaneCosts
from embedded_engine.memory import CellMemory

__all__ = ["PlanDrafts", "Planned", "StepPlanner"]

PlanDrafts = Callable[[Sequence[Choice], int, float], Sequence[tuple[int, ...]]]
"""What to draft for each choice of a lane, with room for so many rows, at so many seconds a row beyond C."""

_LEAST_PROMPT_ROWS = 1
"""So many rows of a prompt are read beside streams even where they take longer than these."""

_SHORT_PROMPT_TOKENS = 128
_SHORT_PROMPT_ROWS = 31
"""A prompt that is this short holds the streams up for a few steps only, and then takes part in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The rows of one choice in a step.

    Attributes:
        choice: Whose.
        rows: Its next tokens, and after them the drafted ones.
        first_row: The number, in the whole step, of the first of them.
        drafted: So many of the last rows are drafts.
        first_logits: The number, in the whole step, of the row that makes its next token; None where none does yet.
    """

    choice: Choice
    rows: list[Row]
    first_row: int
    drafted: tuple[int, ...]
    first_logits: int | None

    def row_at(self, position: int) -> int:
        """The number, in the whole step, of the row at one of its positions."""
        return self.first_row + position - self.rows[0].position


class StepPlanner:
    """Lets every choice that decodes have its row and its drafts, and long prompts as much time as these take together.

    So running streams keep half their pace while a long prompt is read, however much attention its rows cost.

    Args:
        memory: Where the cells are.
        costs: What a lane's rows cost.
        step_tokens: Most rows in a step.
    """

    def __init__(self, memory: CellMemory, costs: LaneCosts, *, step_tokens: int) -> None:
        self._memory = memory
        self._costs = costs
        self._step_tokens = step_tokens

    def plan(self, placed: Sequence[Choice], plan_drafts: PlanDrafts) -> list[Planned]:
        """The rows of a step.

        Args:
            placed: Who has a sequence, most urgent first; every lane has a free cell for each of its that decode.
            plan_drafts: Says what to draft.
        """
        planned: list[Planned] = []
        rows_in = [0] * len(self._memory.lanes)
        decoding = [choice for choice in placed if choice.decodes]
        room = self._step_tokens - len(decoding)
        for lane in self._memory.lanes:
            here = [choice for choice in decoding if self._lane(choice) == lane]
            if here:
                free = min(room, self._memory.free_tokens(lane) - len(here))
                row_s = self._memory.used_tokens(lane) * self._costs.cell_s
                for choice, drafted in zip(here, plan_drafts(here, free, row_s), strict=True):
                    self._add(planned, choice, 1, drafted)
                    rows_in[lane] += 1 + len(drafted)
                    room -= len(drafted)
        self._plan_prompts(planned, [choice for choice in placed if choice.reads], rows_in, room)
        return planned

    def _plan_prompts(self, planned: list[Planned], reading: Iterable[Choice], rows_in: list[int], room: int) -> None:
        cells = [self._memory.used_tokens(lane) for lane in self._memory.lanes]
        budget_s = sum(self._costs.call_s(rows_in[lane], cells[lane]) for lane in self._memory.lanes)
        least = min(_LEAST_PROMPT_ROWS, room) if planned else room
        for choice in reading:
            lane = self._lane(choice)
            beside = rows_in[lane]
            most = min(room, choice.uncomputed_tokens, self._memory.free_tokens(lane) - beside)
            if len(choice.tokens) <= _SHORT_PROMPT_TOKENS:
                least = max(least, min(_SHORT_PROMPT_ROWS, room))
            count = min(most, max(least, self._costs.most_rows(budget_s, beside=beside, cells=cells[lane], most=most)))
            if count < 1:
                continue
            self._add(planned, choice, count, ())
            rows_in[lane] += count
            room -= count
            least = max(0, least - count)
            budget_s -= self._costs.call_s(beside + count, cells[lane]) - self._costs.call_s(beside, cells[lane])

    def _lane(self, choice: Choice) -> int:
        return self._memory.lane_of(-1 if choice.slot is None else choice.slot)

    def _add(self, planned: list[Planned], choice: Choice, count: int, drafted: tuple[int, ...]) -> None:
        """`count` tokens that are to be computed, and drafted ones after the last."""
        at = sum(len(item.rows) for item in planned)
        slot = -1 if choice.slot is None else choice.slot
        start, last = choice.computed, len(choice.tokens) - 1
        end = start + count
        scores = choice.running.request.scores_prompt and not choice.running.prompt_is_read
        rows = [
            Row(slot, token, position, scores or position >= last)
            for position, token in enumerate((*choice.tokens[start:end], *drafted), start)
        ]
        first_logits = at + count - 1 if end == len(choice.tokens) else None
        planned.append(Planned(choice=choice, rows=rows, first_row=at, drafted=drafted, first_logits=first_logits))
