"""Makes of the rows of a step what its choices emit."""

from collections.abc import Iterator

from embedded_engine.choice import Choice
from embedded_engine.emission import Emission
from embedded_engine.kernels.port import Kernels, Logits, Row
from embedded_engine.memory import CellMemory
from embedded_engine.messages import Done, Text
from embedded_engine.sampling.chooser import Drawn
from embedded_engine.speculation.draft_model import DRAFT_MODEL, walk_block
from embedded_engine.speculation.speculator import Speculator
from embedded_engine.speculation.verification import walk

__all__ = ["Verifier"]


class Verifier:
    """Draws from the rows, stops where a draft was wrong, and drops the cells behind.

    Args:
        kernels: They have decoded the step.
        memory: Where the cells are.
        emission: Says what a token says.
        speculator: Learns from what came.
        rounding: How far a logit of a row among others may be from that of the row alone.

    Attributes:
        drawn_tokens: New tokens since the start.
        recomputed_rows: Rows since the start that a strict request had computed again, alone.
    """

    def __init__(
        self, kernels: Kernels, memory: CellMemory, emission: Emission, speculator: Speculator, *, rounding: float
    ) -> None:
        self._kernels = kernels
        self._memory = memory
        self._emission = emission
        self._speculator = speculator
        self._rounding = rounding
        self.drawn_tokens = 0
        self.recomputed_rows = 0

    def verify(self, choice: Choice, drafted: tuple[int, ...], first_row: int, *, alone: bool) -> Iterator[Text | Done]:
        """Emit the tokens that a choice's rows have shown.

        Where a strict request's next token may owe itself to rounding, the choice is `in_doubt`.

        Args:
            choice: Whose.
            drafted: What its rows have beyond its next token.
            first_row: The row of its next token.
            alone: Whether the step had no other row.
        """
        if not choice.room_tokens:
            yield from self._emission.nothing(choice)
            return
        before, probabilities = len(choice.tokens), list[float]()
        for drawn, probability in self._walk(choice, drafted, first_row, alone=alone):
            if probability is not None:
                probabilities.append(probability)
            yield from self._emission.take(choice, drawn)
            if choice.over:
                break
        self._learn(choice, drafted, choice.tokens[before:], probabilities)
        if choice.slot is not None and choice.computed >= len(choice.tokens):
            choice.computed = len(choice.tokens) - 1
            self._memory.cut(choice.slot, choice.computed)
        if choice.over:
            yield self._emission.done(choice)

    def settle(self, choice: Choice) -> Iterator[Text | Done]:
        """Compute the next token of a choice in doubt alone.

        Raises:
            DecodeError: The kernels failed.
        """
        choice.in_doubt = False
        if choice.slot is None:
            return
        position = len(choice.tokens) - 1
        self._memory.close_holes()
        self._kernels.decode([Row(choice.slot, choice.tokens[position], position, wants_logits=True)])
        self._memory.grew(choice.slot, 1)
        choice.computed += 1
        self.recomputed_rows += 1
        yield from self.verify(choice, (), 0, alone=True)

    def _walk(
        self, choice: Choice, drafted: tuple[int, ...], first_row: int, *, alone: bool
    ) -> Iterator[tuple[Drawn, float | None]]:
        def logits(row: int) -> Logits:
            return self._kernels.logits(first_row + row)

        def doubts(drawn: Drawn, seen: Logits) -> bool:
            choice.in_doubt = choice.chooser.nearly_tied(drawn, seen, 2 * self._rounding)
            return choice.in_doubt

        if choice.block.tokens:
            rows = [logits(row) for row in range(len(drafted) + 1)]
            return ((drawn, None) for drawn in walk_block(choice.chooser, rows, choice.block))
        strict = choice.running.request.speculative.exactness == "strict" and not alone
        return walk(choice.chooser, logits, drafted, doubts=doubts if strict else None)

    def _learn(self, choice: Choice, drafted: tuple[int, ...], emitted: list[int], probabilities: list[float]) -> None:
        self.drawn_tokens += len(emitted)
        if choice.block.tokens and choice.block_drafter is not None:
            self._speculator.learn_block(choice.draft, DRAFT_MODEL, drafted=len(drafted), emitted=emitted)
            choice.block_drafter.learn(len(drafted), min(len(drafted), len(emitted) - 1))
        else:
            self._speculator.learn(choice.draft, drafted=drafted, emitted=emitted, probabilities=probabilities)
