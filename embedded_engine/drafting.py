"""What is drafted in a step: by a draft model where there is one and it pays, else from what texts have in common."""

from collections.abc import Sequence

from embedded_engine.choice import Choice
from embedded_engine.speculation.costs import StepCosts
from embedded_engine.speculation.draft_model import NO_BLOCK, BlockDrafter, DraftModel
from embedded_engine.speculation.speculator import Speculator

__all__ = ["Drafting"]


class Drafting:
    """Asks the sources for all choices of a lane.

    Args:
        speculator: The sources that cost nothing.
        draft_model: The one that costs something, or None.
        costs: C of the target.
    """

    def __init__(self, speculator: Speculator, draft_model: DraftModel | None, costs: StepCosts) -> None:
        self._speculator = speculator
        self._draft_model = draft_model
        self._costs = costs

    def follow(self, choice: Choice) -> None:
        """Let the draft model follow a new choice, where it can."""
        request = choice.running.request
        exact = request.speculative.exactness == "strict"
        if self._draft_model is not None and choice.draft.wanted.enabled and choice.chooser.forks and not exact:
            choice.block_drafter = self._draft_model.follow(len(request.prompt))

    def plan(self, choices: Sequence[Choice], room_rows: int, row_s: float) -> list[tuple[int, ...]]:
        """The tokens to draft for each choice of one lane.

        Args:
            choices: Those that decode.
            room_rows: At most so many rows for all of them together.
            row_s: What each row costs beyond C.
        """
        drafted: dict[int, tuple[int, ...]] = {}
        for index, choice in enumerate(choices):
            # A choice's last token needs no cell: what is drafted beyond it would be computed for nothing.
            choice.block = NO_BLOCK
            if choice.block_drafter is not None:
                most = min(choice.room_tokens - 1, room_rows, choice.draft.wanted.n_max)
                drafted[index] = self._draft_block(choice, choice.block_drafter, most, row_s)
                room_rows -= len(drafted[index])
        rest = [index for index in range(len(choices)) if not drafted.get(index)]
        planned = self._speculator.plan(
            [choices[index].draft for index in rest],
            forced=[choices[index].chooser.forced() for index in rest],
            most=[choices[index].room_tokens - 1 for index in rest],
            room_rows=room_rows,
            row_s=row_s,
        )
        drafted.update(zip(rest, planned, strict=True))
        return [drafted[index] for index in range(len(choices))]

    def _draft_block(self, choice: Choice, drafter: BlockDrafter, most: int, row_s: float) -> tuple[int, ...]:
        length = drafter.length(self._costs, row_s=row_s, most=most)
        choice.block = drafter.draft(choice.tokens, choice.chooser, length)
        return choice.block.tokens
