"""How the choices of a request begin."""

from embedded_engine.choice import Choice, Running
from embedded_engine.drafting import Drafting
from embedded_engine.intake import Prepared
from embedded_engine.sampling.chooser import Chooser
from embedded_engine.speculation.speculator import Draft, Speculator
from embedded_engine.speculative import NEVER
from embedded_engine.vocabulary import Vocabulary

__all__ = ["Beginning"]


class Beginning:
    """Gives a request its choices, each with all that its tokens come to depend on.

    Args:
        vocabulary: The model's.
        speculator: The engine's.
        speculates: Whether anything may be drafted.
    """

    def __init__(self, vocabulary: Vocabulary, speculator: Speculator, drafting: Drafting, *, speculates: bool) -> None:
        self._vocabulary = vocabulary
        self._speculator = speculator
        self._drafting = drafting
        self._speculates = speculates

    def choices(self, running: Running) -> list[Choice]:
        """New choices."""
        request = running.request
        choices = [
            Choice(
                running=running,
                index=index,
                chooser=self._chooser(request, index),
                draft=self._draft(request),
                tokens=list(request.prompt),
                transcript=request.plan.transcript(),
            )
            for index in range(request.n)
        ]
        for choice in choices:
            self._drafting.follow(choice)
        return choices

    def _draft(self, request: Prepared) -> Draft:
        return self._speculator.begin(
            request.prompt,
            scope=request.scope,
            prediction=request.prediction,
            wanted=request.speculative if self._speculates else NEVER,
            temperature=request.sampling.temperature,
        )

    def _chooser(self, request: Prepared, index: int) -> Chooser:
        grammar = request.new_grammar() if request.new_grammar is not None else None
        ends, budget = self._vocabulary.ends, request.plan.budget()
        return Chooser(request.sampling, choice=index, prompt=request.prompt, ends=ends, grammar=grammar, budget=budget)
