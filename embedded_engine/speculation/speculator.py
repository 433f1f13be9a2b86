"""Proposes tokens that one step may verify together with the next one, and learns from what came of them.

draft = speculator.begin(prompt, scope="tenant")                        # a choice begins
drafted = speculator.plan([draft], forced=[()], most=[100], room_rows=64)  # before a step, for all that decode
speculator.learn(draft, drafted=drafted[0], emitted=[...], probabilities=[...])
speculator.measured(rows=4, seconds=0.03)
speculator.end(draft)
"""

from collections.abc import Sequence

from embedded_engine.speculation.confidence import ConfidenceHead
from embedded_engine.speculation.costs import StepCosts
from embedded_engine.speculation.draft import (
    PAST_OUTPUTS,
    PREDICTION,
    REPETITION,
    Draft,
    Link,
)
from embedded_engine.speculation.drafter import Drafter
from embedded_engine.speculation.first_weights import FIRST_WEIGHTS, REFEREE_WEIGHTS
from embedded_engine.speculation.ledger import Ledger, SourceReport
from embedded_engine.speculation.length import best_lengths
from embedded_engine.speculation.markov import MarkovTables
from embedded_engine.speculation.past_outputs import PastOutputs, Recall
from embedded_engine.speculation.prediction import Prediction
from embedded_engine.speculation.repetition import Repetition
from embedded_engine.speculative import AS_FAST_AS_CAN_BE, DRAFTERS, Speculative

__all__ = ["Draft", "Speculator"]

_END = -1
"""Stands for an end token, which is not among the emitted."""


class Speculator:
    """One engine's.

    Args:
        costs: What a step costs by its rows.
        end_tokens: The model's end-of-generation tokens.
    """

    def __init__(self, costs: StepCosts, *, end_tokens: frozenset[int] = frozenset()) -> None:
        self._costs = costs
        self._end_tokens = end_tokens
        self._outputs = PastOutputs()
        self._tables = MarkovTables()
        self._heads = {source: ConfidenceHead(FIRST_WEIGHTS[source]) for source in DRAFTERS}
        self._referees = {source: ConfidenceHead(REFEREE_WEIGHTS[source]) for source in DRAFTERS}
        self._ledger = Ledger()

    def begin(
        self,
        prompt: Sequence[int],
        *,
        scope: str,
        prediction: Sequence[int] | None = None,
        wanted: Speculative = AS_FAST_AS_CAN_BE,
        temperature: float = 0.0,
    ) -> Draft:
        """A choice begins.

        Args:
            prompt: Its tokens.
            scope: Whose past outputs may be drafted from, and who may draft from this one.
            prediction: What the caller expects of the output, in tokens.
            wanted: What the request says about speculation.
            temperature: The request's, which tells how predictable its text is.
        """
        drafters: dict[str, Drafter] = {}
        names = (DRAFTERS if wanted.drafters is None else wanted.drafters) if wanted.enabled else ()
        if prediction and PREDICTION in names:
            drafters[PREDICTION] = Prediction(prediction)
        if REPETITION in names:
            drafters[REPETITION] = Repetition(prompt)
        if PAST_OUTPUTS in names:
            drafters[PAST_OUTPUTS] = Recall(self._outputs, scope, prompt)
        return Draft(prompt, drafters, self._tables.of(scope), scope=scope, wanted=wanted, temperature=temperature)

    def plan(
        self,
        drafts: Sequence[Draft],
        *,
        forced: Sequence[tuple[int, ...]],
        most: Sequence[int],
        room_rows: int,
        other_rows: int = 0,
        row_s: float = 0.0,
    ) -> list[tuple[int, ...]]:
        """The tokens to draft for each choice that decodes in this step.

        Args:
            drafts: The choices'.
            forced: For each, what is certain to come next.
            most: For each, how many drafted tokens it has use for.
            room_rows: At most so many rows for all of them together.
            other_rows: Rows of the step that belong to none of them, such as those of a prompt.
            row_s: What each row costs beyond C.
        """
        chains = [
            draft.propose(certain, limit, self._heads, self._referees, self._end_tokens)
            for draft, certain, limit in zip(drafts, forced, most, strict=True)
        ]
        chances = [[link.chance for link in chain] for chain in chains]
        lengths = best_lengths(chances, self._costs, other_rows=other_rows, room_rows=room_rows, row_s=row_s)
        return [tuple(link.token for link in chain[:n]) for chain, n in zip(chains, lengths, strict=True)]

    def learn(
        self, draft: Draft, *, drafted: Sequence[int], emitted: Sequence[int], probabilities: Sequence[float]
    ) -> None:
        """What came of a step.

        Args:
            draft: The choice's.
            drafted: What was decoded for it beyond its next token.
            emitted: What was drawn.
            probabilities: p~ of the drafted tokens, up to and including the first that was rejected.
        """
        accepted = 0
        while accepted < min(len(drafted), len(emitted)) and drafted[accepted] == emitted[accepted]:
            accepted += 1
        draft.count(len(drafted), accepted)
        self._ledger.drafted([link.source for link in draft.chain[: len(drafted)]], accepted=accepted)
        for position, link in enumerate(draft.chain):
            probability = probabilities[position] if position < len(probabilities) else None
            if position <= accepted and (position < len(emitted) or probability is not None):
                token = emitted[position] if position < len(emitted) else _END
                self._judge(draft, link, token, probability)
            if probability is not None:
                self._ledger.judged(link.source, confidence=link.confidence, probability=probability)
        draft.chain = ()
        for token in emitted:
            draft.take(token)

    def learn_block(self, draft: Draft, source: str, *, drafted: int, emitted: Sequence[int]) -> None:
        """What came of a step whose tokens another model drafted; all but the last emitted were its."""
        accepted = min(drafted, len(emitted) - 1)
        self._ledger.drafted([source] * drafted, accepted=accepted)
        draft.count_block(source, drafted, accepted)
        for token in emitted:
            draft.take(token)

    def measured(self, *, rows: int, seconds: float) -> None:
        """A step of so many rows took so long."""
        self._costs.measured(rows, seconds)

    def end(self, draft: Draft) -> None:
        """The choice is over: its output may be drafted from, unless its request wanted nothing to do with drafts."""
        if draft.wanted.enabled:
            self._outputs.store(draft.scope, draft.output)

    def report(self) -> dict[str, SourceReport]:
        """What was drafted and accepted so far, by source."""
        return self._ledger.report()

    def _judge(self, draft: Draft, link: Link, emitted: int, probability: float | None) -> None:
        for guess in link.guesses:
            hit = guess.token == emitted
            label = probability if probability is not None and guess.token == link.token else float(hit)
            self._heads[guess.source].learn(guess.features, label)
            if guess.token == link.token and guess.source == link.source:
                self._referees[guess.source].learn(link.standing, label)
            draft.note_hit(guess.source, hit=hit)
