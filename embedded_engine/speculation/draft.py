"""What is drafted for one choice: asks all sources, and chains the best guesses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from embedded_engine.speculation.confidence import ConfidenceHead
from embedded_engine.speculation.drafter import MOST_TOKENS, Drafter, Proposal
from embedded_engine.speculation.features import Guess, Moment, features_of
from embedded_engine.speculation.markov import MarkovTable
from embedded_engine.speculation.recycling import Recycling

__all__ = ["FORCED", "MARKOV", "SOURCES", "Draft", "Judged", "Link", "SpeculationOptions"]

FORCED, PREDICTION, REPETITION, PAST_OUTPUTS, MARKOV = "forced", "prediction", "repetition", "past_outputs", "markov"
SOURCES = (FORCED, PREDICTION, REPETITION, PAST_OUTPUTS, MARKOV)
"""Where drafts come from, the first the most trusted."""

_LEAST_CHANCE = 0.05
"""No draft goes on below: a row always costs more than it would bring."""

_HITS_RATE = 0.2
_CERTAINTY_RATE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationOptions:
    """What a request wants.

    Attributes:
        enabled: Whether anything is drafted.
        most_tokens: Drafted tokens at most, in one step.
        sources: Names of `SOURCES`; None: all.
        temperature: The request's, which tells how predictable its text is.
    """

    enabled: bool = True
    most_tokens: int = MOST_TOKENS
    sources: frozenset[str] | None = None
    temperature: float = 0.0


class Judged(NamedTuple):
    """A guess, and how sure its source's head was of it."""

    guess: Guess
    features: tuple[float, ...]
    confidence: float


class Link(NamedTuple):
    """One token of a draft.

    Attributes:
        token: What is drafted.
        source: Whose guess it is.
        confidence: The chance that it is right if all before it are.
        chance: The chance that it and all before it are right.
        judged: All guesses for this place.
    """

    token: int
    source: str
    confidence: float
    chance: float
    judged: Sequence[Judged]


class Draft:
    """One choice's sources and what is known of how well they do.

    Attributes:
        scope: Whose store and table it uses.
        options: What the request wants.
        output: The tokens emitted so far.
        chain: What was proposed for the step that runs.
        accepted_prediction_tokens: Of the caller's prediction, tokens that were drafted and right.
        rejected_prediction_tokens: And wrong.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        drafters: Mapping[str, Drafter],
        table: MarkovTable,
        *,
        scope: str,
        options: SpeculationOptions,
    ) -> None:
        self.scope = scope
        self.options = options
        self.output: list[int] = []
        self.chain: Sequence[Link] = ()
        self.accepted_prediction_tokens = 0
        self.rejected_prediction_tokens = 0
        self._drafters = drafters
        self._table = table
        self._uses_table = options.enabled and (options.sources is None or MARKOV in options.sources)
        self._recycling = Recycling()
        self._hits = dict.fromkeys(SOURCES, 0.5)
        self._certainty = 1.0
        self._before, self._last = ((-1, -1, *prompt[-2:]))[-2:]

    def take(self, token: int) -> None:
        """A token was emitted."""
        self.output.append(token)
        if self._uses_table and self._last >= 0:
            self._table.learn(self._before, self._last, token)
        self._recycling.note(self._last, token)
        for drafter in self._drafters.values():
            drafter.take(token)
        self._before, self._last = self._last, token

    def note_candidates(self, last: int, candidates: Sequence[int]) -> None:
        """After `last` the model thought of these tokens."""
        self._recycling.note(last, *candidates)

    def note_certainty(self, probability: float) -> None:
        """So likely was a token that was emitted, or would have been."""
        self._certainty += _CERTAINTY_RATE * (probability - self._certainty)

    def note_hit(self, source: str, *, hit: bool) -> None:
        """A source's guess was right, or not."""
        self._hits[source] += _HITS_RATE * (hit - self._hits[source])

    def propose(
        self, forced: Sequence[int], most: int, heads: Mapping[str, ConfidenceHead], ends: frozenset[int]
    ) -> Sequence[Link]:
        """Chain the best guesses, until none is likely enough; also kept as `chain`.

        Args:
            forced: Tokens that are certain.
            most: At most so many in all; the first place is looked at in any case, for the heads to learn from.
            heads: Each source's.
            ends: Tokens that end the text: never drafted, since nothing comes after them.
        """
        certain = takewhile(lambda token: token not in ends, forced[:most])
        self.chain = chain = [Link(token, FORCED, 1.0, 1.0, ()) for token in certain]
        if chain or not self.options.enabled:
            return chain
        proposals = [(name, proposal) for name, d in self._drafters.items() if (proposal := d.propose())]
        strayed = dict.fromkeys(self._drafters, 0)
        before, last, chance = self._before, self._last, 1.0
        for position in range(max(1, min(most, self.options.most_tokens))):
            guesses, moment = self._guesses(position, before, last, proposals, strayed)
            judged = [self._judge(g, guesses, moment, before, last, heads) for g in guesses if g.token not in ends]
            if not judged:
                break
            best = max(judged, key=lambda j: j.confidence)
            chance *= best.confidence
            chain.append(Link(best.guess.token, best.guess.source, best.confidence, chance, judged))
            if chance < _LEAST_CHANCE:
                break
            for guess in guesses:
                strayed[guess.source] = guess.strayed + (guess.token != best.guess.token)
            before, last = last, best.guess.token
        return chain

    def _guesses(
        self,
        position: int,
        before: int,
        last: int,
        proposals: Sequence[tuple[str, Proposal]],
        strayed: Mapping[str, int],
    ) -> tuple[list[Guess], Moment]:
        guesses = [
            Guess(name, p.tokens[position], p.shares[position], p.match, p.times, strayed[name])
            for name, p in proposals
            if position < len(p.tokens)
        ]
        successor = self._table.successor(before, last) if self._uses_table else None
        if successor is not None:
            guesses.append(Guess(MARKOV, successor.token, successor.probability, 0, successor.seen, 0))
        token, probability = (successor.token, successor.probability) if successor else (-1, 0.0)
        recycled = self._recycling.after(last)
        return guesses, Moment(position, self.options.temperature, self._certainty, token, probability, recycled)

    def _judge(
        self,
        guess: Guess,
        guesses: Sequence[Guess],
        moment: Moment,
        before: int,
        last: int,
        heads: Mapping[str, ConfidenceHead],
    ) -> Judged:
        same = sum(other.token == guess.token for other in guesses) - 1
        if guess.token == moment.markov_token:
            markov = moment.markov_probability
        else:
            markov = self._table.probability(before, last, guess.token) if self._uses_table else 0.0
        features = features_of(
            guess,
            moment,
            markov=markov,
            hits=self._hits[guess.source],
            agree=same,
            differ=len(guesses) - 1 - same,
        )
        return Judged(guess, features, heads[guess.source].confidence(features))
