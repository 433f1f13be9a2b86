"""Proposes tokens that one call may verify together with the next one."""

from collections import Counter
from collections.abc import Mapping, Sequence

__all__ = ["Draft", "Speculator"]


class Draft:
    """What is known for drafting of one choice: its prompt, its output and its scope."""

    def __init__(self, prompt: Sequence[int], *, scope: str, prediction: Sequence[int] | None) -> None:
        self.prompt = prompt
        self.scope = scope
        self.prediction = prediction


class Speculator:
    """One engine's."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def begin(self, prompt: Sequence[int], *, scope: str, prediction: Sequence[int] | None = None) -> Draft:
        """A choice begins."""
        return Draft(prompt, scope=scope, prediction=prediction)

    def plan(
        self, drafts: Sequence[Draft], *, forced: Sequence[tuple[int, ...]], room_rows: int
    ) -> list[tuple[int, ...]]:
        """The tokens to draft for each choice; what is certain is drafted first.

        Args:
            drafts: The choices that decode in this step.
            forced: For each, what its chooser says is certain.
            room_rows: At most so many rows for all of them together.
        """
        planned = []
        for _, certain in zip(drafts, forced, strict=True):
            planned.append(certain[:room_rows])
            room_rows -= len(planned[-1])
        return planned

    def learn(
        self, draft: Draft, *, drafted: Sequence[int], emitted: Sequence[int], probabilities: Sequence[float]
    ) -> None:
        """What came of a draft.

        Args:
            draft: The choice's.
            drafted: What was proposed.
            emitted: What was drawn.
            probabilities: Of the drafted tokens, up to and including the first that was rejected.
        """
        del draft, probabilities
        self._counts["drafted"] += len(drafted)
        self._counts["accepted"] += sum(a == b for a, b in zip(drafted, emitted, strict=False))

    def end(self, draft: Draft) -> None:
        """The choice is over."""

    def report(self) -> Mapping[str, int]:
        """Drafted and accepted tokens so far."""
        return dict(self._counts)
