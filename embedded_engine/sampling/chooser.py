"""Chooses the tokens of one choice, one after the other.

Every token comes out of the same steps in the same order:

1. *forced tokens*: where a reasoning budget or a grammar leaves one token only, it is that
2. *logit bias*: added to the logits
3. *penalties*: repetition, then frequency and presence
4. *what may not come*: what the grammar rules out, and end tokens before `min_tokens`
5. *temperature*, 6. *top-k*, 7. *top-p*, 8. *min-p*: see `distribution.py`
9. *the draw*: inverts the distribution function at a number that depends on seed, choice and position alone
10. *the swap*: a reasoning budget may put another token in the place of the end of the thought

The result of all that, p~ in the formulas, is what speculation must not change; and since a draw changes nothing and
only emitted tokens `advance` the state, whoever verifies drafts walks row by row and never has to take anything back.
"""

import math
from collections.abc import Sequence
from copy import copy, deepcopy

import numpy as np
from numpy.typing import NDArray

from embedded_engine.errors import BadNumerics
from embedded_engine.kernels.port import Logits
from embedded_engine.sampling.constraints import Budget, Grammar, Tokens
from embedded_engine.sampling.distribution import COLDEST, Distribution, truncated
from embedded_engine.sampling.logprobs import RowLogprob, row_logprob
from embedded_engine.sampling.parameters import Sampling
from embedded_engine.sampling.penalties import Penalties
from embedded_engine.sampling.randomness import uniform

__all__ = ["Chooser", "Drawn"]

_EDGE = 1e-12
_PURPOSE = 2**32
"""No request has so many choices."""


class Drawn:
    """A token, and the distribution that it came from.

    Attributes:
        token: What is emitted.
        distribution: p~, but for what a reasoning budget moves; None for a forced or greedy token.
    """

    __slots__ = ("_logits", "_swapped", "distribution", "token")

    def __init__(
        self, token: int, distribution: Distribution | None, logits: Logits, swapped: tuple[int, int] | None = None
    ) -> None:
        self.token = swapped[1] if swapped and token == swapped[0] else token
        self.distribution = distribution
        self._logits = logits
        self._swapped = swapped

    def probability(self, token: int) -> float:
        """How likely `token` was in p~; 1 for a forced or greedy token."""
        if self.distribution is None:
            return float(token == self.token)
        if self._swapped is None or token not in self._swapped:
            return self.distribution.probability(token)
        return float(token == self._swapped[1]) * sum(map(self.distribution.probability, self._swapped))

    def logprobs(self, count: int) -> RowLogprob:
        """The model's log-probability of the token and of the `count` likeliest; only before the next decode.

        Raises:
            BadNumerics: The logits are no numbers.
        """
        return row_logprob(self._logits, self.token, count)


class Chooser:
    """The state from which one choice's tokens are drawn.

    Args:
        sampling: The request's parameters.
        choice: Which of the request's choices.
        prompt: The prompt's tokens.
        ends: The model's end-of-generation tokens.
        grammar: What the text must be, at its beginning.
        budget: The reasoning budget, at its beginning.
    """

    def __init__(
        self,
        sampling: Sampling,
        *,
        choice: int,
        prompt: Sequence[int],
        ends: frozenset[int] = frozenset(),
        grammar: Grammar | None = None,
        budget: Budget | None = None,
    ) -> None:
        self._sampling = sampling
        self._choice = choice
        self._position = 0
        self._end_tokens = ends
        self._ends = np.array(sorted(ends), np.intp)
        self._biased = np.array([token for token, _ in sampling.logit_bias], np.intp)
        self._bias = np.array([bias for _, bias in sampling.logit_bias], np.float32)
        self._penalties = Penalties(sampling, prompt) if Penalties.wanted(sampling) else None
        self._grammar = grammar
        self._budget = budget

    def draw(self, logits: Logits) -> Drawn:
        """The next token; asking again gives the same.

        Args:
            logits: Shape (vocabulary,), never written to; minus infinity rules a token out.

        Raises:
            BadNumerics: The logits hold NaN or plus infinity, or rule every token out.
        """
        if forced := self.forced():
            return Drawn(forced[0], None, logits)
        adjusted = self._adjusted(logits)
        likeliest = int(np.argmax(adjusted))
        top = float(adjusted[likeliest])  # argmax stops at a NaN where there is one
        if not math.isfinite(top):
            raise BadNumerics(f"the model's largest logit is {top}")
        tokens: Tokens | None = None
        greedy = self._sampling.temperature < COLDEST
        grammar = self._active_grammar()
        if grammar and not (greedy and self._may_be(grammar, likeliest)):
            tokens = self._may_come(grammar)
            adjusted = adjusted[tokens]
            place = int(np.argmax(adjusted))
            likeliest, top = int(tokens[place]), float(adjusted[place])
            if not math.isfinite(top):
                raise BadNumerics("the model rules out every token that the grammar allows")
        swapped = self._budget.swapped if self._budget is not None else None
        if greedy or (tokens is not None and len(tokens) == 1):
            return Drawn(likeliest, None, logits, swapped)
        distribution = truncated(adjusted, tokens, top, self._sampling)
        u = uniform(self._sampling.seed, self._choice, self._position)
        return Drawn(distribution.token_at(u), distribution, logits, swapped)

    def nearly_tied(self, drawn: Drawn, logits: Logits, error: float) -> bool:
        """Whether another token might have been drawn, had the logits been off by `error` each.

        With top-k, top-p or min-p a token at the edge might have been kept or dropped as well: that counts as tied.
        """
        if not error or self.forced():
            return False
        if drawn.distribution is None:
            lowered = logits.copy()
            lowered[drawn.token] -= np.float32(2 * error)
            return self.draw(lowered).token != drawn.token
        sampling = self._sampling
        if sampling.top_k or sampling.top_p < 1 or sampling.min_p:
            return True
        u = min(max(uniform(sampling.seed, self._choice, self._position), _EDGE), 1 - _EDGE)
        odds, shift = math.log(u / (1 - u)), 2 * error / sampling.temperature
        return any(
            drawn.distribution.token_at(1 / (1 + math.exp(-moved))) != drawn.distribution.token_at(u)
            for moved in (odds - shift, odds + shift)
        )

    @property
    def forks(self) -> bool:
        """Whether `fork` can be asked for: a grammar or a budget goes one way only."""
        return self._grammar is None and self._budget is None

    def fork(self) -> "Chooser":
        """Another in the same state, which goes its own way."""
        other = copy(self)
        other._penalties = deepcopy(self._penalties)  # noqa: SLF001 - of our own kind
        return other

    def law(self, logits: Logits) -> NDArray[np.float64]:
        """All of p~, shape (vocabulary,), of sum 1."""
        drawn = self.draw(logits)
        if drawn.distribution is not None:
            return drawn.distribution.law(len(logits))
        law = np.zeros(len(logits))
        law[drawn.token] = 1
        return law

    def noise(self, purpose: int, ahead: int = 0) -> float:
        """A number like the ones that tokens are drawn by, and independent of them.

        Args:
            purpose: From 1; each has numbers of its own.
            ahead: Which of the numbers that this position has for the purpose; under 64. Another position has others,
                also where one is ahead of the other by as much.
        """
        return uniform(self._sampling.seed, self._choice + purpose * _PURPOSE, self._position * 64 + ahead)

    def advance(self, token: int) -> None:
        """`token` is emitted; an end token changes nothing."""
        if token in self._end_tokens:
            return
        if self._penalties is not None:
            self._penalties.advance(token)
        if grammar := self._active_grammar():
            grammar.advance(token)
        if self._budget is not None:
            self._budget.advance(token)
        self._position += 1

    def forced(self) -> tuple[int, ...]:
        """Tokens that have probability 1 from here on, one after the other; empty where there is a choice."""
        if self._budget is not None and (forced := self._budget.forced()):
            return forced
        grammar = self._active_grammar()
        return grammar.forced() if grammar else ()

    def _active_grammar(self) -> Grammar | None:
        return self._grammar if self._budget is None or not self._budget.thinking else None

    def _keeps_going(self) -> bool:
        return self._sampling.ignore_eos or self._position < self._sampling.min_tokens

    def _adjusted(self, logits: Logits) -> Logits:
        """The logits after bias, penalties and banned ends: a copy where there are any."""
        bans_ends = self._keeps_going() and not self._active_grammar()
        if not (len(self._biased) or self._penalties or bans_ends):
            return logits
        adjusted = logits.copy()
        adjusted[self._biased] += self._bias
        if self._penalties is not None:
            self._penalties.apply(adjusted)
        if bans_ends:
            adjusted[self._ends] = -np.inf
        return adjusted

    def _may_be(self, grammar: Grammar, token: int) -> bool:
        """Whether `token` may come for sure: an end that `min_tokens` speaks against is looked at closely."""
        return not (self._keeps_going() and token in self._end_tokens) and grammar.permits(token)

    def _may_come(self, grammar: Grammar) -> Tokens:
        """What the grammar allows; where only an end is left, `min_tokens` gives way to it."""
        allowed = grammar.allowed()
        if self._keeps_going():
            longer = allowed[~np.isin(allowed, self._ends)]
            return longer if len(longer) else allowed
        return allowed
