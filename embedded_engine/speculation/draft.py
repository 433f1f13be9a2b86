"""What is drafted for one choice: asks all sources, and chains the best guesses."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from embedded_engine.speculation.confidence import ConfidenceHead
from embedded_engine.speculation.drafter import Drafter, Proposal
from embedded_engine.speculation.features import Guess, log1p
from embedded_engine.speculation.markov import NO_SUCCESSORS, MarkovTable
from embedded_engine.speculation.recycling import Recycling
from embedded_engine.speculative import DRAFTERS, Speculative

__all__ = [
    "FORCED",
    "MARKOV",
    "PAST_OUTPUTS",
    "PREDICTION",
    "REPETITION",
    "Draft",
    "DraftCount",
    "Link",
]

PREDICTION, REPETITION, PAST_OUTPUTS, MARKOV = DRAFTERS
FORCED = "forced"

_LEAST_CHANCE = 0.08
"""No draft goes on below: a row always costs more than it would bring."""

_LEAST_CONFIDENCE = 1e-6
_MOST_STRAYED = 3.0
_HITS_RATE = 0.2


class Link(NamedTuple):
    """One token of a draft.

    Attributes:
        token: What is drafted.
        source: Whose guess it is.
        confidence: The chance that it is right if all before it are.
        chance: The chance that it and all before it are right.
        guesses: All guesses for this place.
        standing: What the referee saw: see `REFEREE_WEIGHTS`.
    """

    token: int
    source: str
    confidence: float
    chance: float
    guesses: Sequence[Guess]
    standing: tuple[float, ...]


@dataclass(slots=True)
class DraftCount:
    """What one source has drafted for one choice: `drafts` times, `drafted` tokens, of which `accepted` were right."""

    drafts: int = 0
    drafted: int = 0
    accepted: int = 0


class Draft:
    """One choice's sources and what is known of how well they do.

    Attributes:
        scope: Whose store and table it uses.
        wanted: What the request says about speculation.
        output: The tokens emitted so far.
        chain: What was proposed for the step that runs.
        counts: By source, how often it drafted, how many tokens, and how many of them were right.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        drafters: Mapping[str, Drafter],
        table: MarkovTable,
        *,
        scope: str,
        wanted: Speculative,
        temperature: float,
    ) -> None:
        self.scope = scope
        self.wanted = wanted
        self.output: list[int] = []
        self.chain: Sequence[Link] = ()
        self.counts: dict[str, DraftCount] = {}
        self._drafters = drafters
        self._table = table
        self._uses_table = wanted.enabled and (wanted.drafters is None or MARKOV in wanted.drafters)
        self._temperature = min(temperature, 2.0)
        self._recycling = Recycling()
        self._hits = dict.fromkeys(DRAFTERS, 0.5)
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

    @property
    def accepted_prediction_tokens(self) -> int:
        """Of the caller's own prediction, tokens that were drafted and right."""
        return self.counts.get(PREDICTION, DraftCount()).accepted

    @property
    def rejected_prediction_tokens(self) -> int:
        """And those that were drafted and wrong."""
        count = self.counts.get(PREDICTION, DraftCount())
        return count.drafted - count.accepted

    def count(self, drafted: int, accepted: int) -> None:
        """So many tokens of the chain were drafted, and the first `accepted` of them right."""
        sources = [link.source for link in self.chain[:drafted]]
        for source in dict.fromkeys(sources):
            count = self.counts.setdefault(source, DraftCount())
            count.drafts += 1
            count.drafted += sources.count(source)
            count.accepted += sources[:accepted].count(source)

    def count_block(self, source: str, drafted: int, accepted: int) -> None:
        """Another model drafted so many tokens, and the first `accepted` of them were right."""
        count = self.counts.setdefault(source, DraftCount())
        count.drafts += 1
        count.drafted += drafted
        count.accepted += accepted

    def note_hit(self, source: str, *, hit: bool) -> None:
        """A source's guess was right, or not."""
        self._hits[source] += _HITS_RATE * (hit - self._hits[source])

    def propose(
        self,
        forced: Sequence[int],
        most: int,
        heads: Mapping[str, ConfidenceHead],
        referees: Mapping[str, ConfidenceHead],
        ends: frozenset[int],
    ) -> Sequence[Link]:
        """Chain the best guesses, until none is likely enough; kept as `chain`, one of them even where none may come.

        Args:
            forced: Tokens that are certain.
            most: At most so many.
            heads: Each source's, for all its guesses.
            referees: Each source's, for those that were the best.
            ends: Tokens that end the text: never drafted, since nothing comes after them.
        """
        certain = takewhile(lambda token: token not in ends, forced[:most])
        self.chain = chain = [Link(token, FORCED, 1.0, 1.0, (), ()) for token in certain]
        if chain or not self.wanted.enabled:
            return chain
        sources = self._ask_sources()
        before, last, chance = self._before, self._last, 1.0
        longest = max(0, min(most, self.wanted.n_max))
        for position in range(max(1, longest)):
            guesses = self._guesses(position, before, last, sources, heads)
            link = _best_link(guesses, chance, referees)
            if link is None or link.token in ends:
                break
            chain.append(link)
            chance = link.chance
            if chance < _LEAST_CHANCE:
                break
            for source in sources:
                source.strayed += source.token_at(position) != link.token
            before, last = last, link.token
        return chain[:longest]

    def _ask_sources(self) -> list["_Source"]:
        hits = self._hits
        return [
            _Source(name, proposal, hits[name])
            for name, drafter in self._drafters.items()
            if (proposal := drafter.propose()) is not None
        ]

    def _guesses(
        self,
        position: int,
        before: int,
        last: int,
        sources: Sequence["_Source"],
        heads: Mapping[str, ConfidenceHead],
    ) -> list[Guess]:
        """What each source says for a place, and how sure its head is of it."""
        after = self._table.after(before, last) if self._uses_table else NO_SUCCESSORS
        said = [(source, token) for source in sources if (token := source.token_at(position)) >= 0]
        if after.token >= 0:
            said.append((_Source(MARKOV, Proposal((), (), after.times, after.seen), self._hits[MARKOV]), after.token))
        tokens = [token for _, token in said]
        recycled = self._recycling.after(last)
        guesses = []
        for source, token in said:
            same = tokens.count(token)
            share = source.shares[position] if source.shares else after.likely
            features = (
                1.0,
                source.log_match,
                share,
                source.log_times,
                source.hits,
                1.0 if same > 1 else 0.0,
                1.0 if same < len(tokens) else 0.0,
                log1p(position),
                after.probability(token),
                after.likely if after.token != token else 0.0,
                min(_MOST_STRAYED, source.strayed),
                1.0 if token in recycled else 0.0,
                self._temperature,
                source.log_match * share,
            )
            guesses.append(Guess(source.name, token, features, heads[source.name].confidence(features)))
        return guesses


class _Source:
    """A source's proposal, while a draft is made of it."""

    __slots__ = ("hits", "log_match", "log_times", "name", "shares", "strayed", "tokens")

    def __init__(self, name: str, proposal: Proposal, hits: float) -> None:
        self.name = name
        self.tokens, self.shares = proposal.tokens, proposal.shares
        self.log_match, self.log_times = log1p(proposal.match), log1p(proposal.times)
        self.hits = hits
        self.strayed = 0.0

    def token_at(self, position: int) -> int:
        """What it says; -1 where it has nothing more to say."""
        return self.tokens[position] if position < len(self.tokens) else -1


def _best_link(guesses: Sequence[Guess], chance: float, referees: Mapping[str, ConfidenceHead]) -> Link | None:
    """The surest guess, where there is one; `chance`: that all before it are right."""
    best = max(guesses, key=_confidence, default=None)
    if best is None:
        return None
    rival = max((guess.confidence for guess in guesses if guess.token != best.token), default=0.0)
    standing = (1.0, math.log(max(best.confidence, _LEAST_CONFIDENCE) / (1 - best.confidence)), rival)
    confidence = referees[best.source].confidence(standing)
    return Link(best.token, best.source, confidence, chance * confidence, guesses, standing)


def _confidence(guess: Guess) -> float:
    return guess.confidence
