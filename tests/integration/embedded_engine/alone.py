"""What the model itself, with nothing else in its memory, thinks of each token of an answer.

Whoever shares a lane moves the cells, the cells' places decide in which order sums are made, and rounding makes more of
that: so in company another of two nearly equal tokens may come, and the same request may be answered in other words
from one time to the next. What is promised is that every row is computed from its own text. That is told by the
numbers: a token that was drawn in company has, within rounding, the likelihood that it has alone.
"""

from collections.abc import Sequence

from embedded_engine.engine import Engine
from embedded_engine.messages import Echo, Generate, TokenLogprob
from tests.unit.embedded_engine.toy import Answers

__all__ = ["LOGPROBS", "ROUNDING", "Alone"]

LOGPROBS = 20
"""Requests whose answers are looked at ask for so many."""

ROUNDING = 2.0
"""In natural log-probabilities.

The worst of 320 answers in crowds was off by 0.68, half of them by 0.31 or less: as extremes go (Gumbel's law), one
answer in 10 billion is off by more than 2. Under another's prompt 24 answers were off by 4.4 to 20, and rows that did
not see all their own cells by 5 to 30.
"""


class Alone:
    """An engine that has nothing else to do, and reads texts from their beginnings.

    Args:
        engine: Idle whenever it is asked.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._read: dict[tuple[int, ...], list[TokenLogprob]] = {}

    def furthest(self, prompt: Sequence[int], answers: Answers, number: int, *, greedy: bool = True) -> float:
        """How far any likelihood that an answer was told with is from the one it has alone.

        Args:
            prompt: The answer's, in tokens.
            answers: It is among these, with `LOGPROBS` of the likeliest tokens for each of its own.
            number: It is the first choice of this request.
            greedy: Whether each token should be the likeliest, and counts by how far it is behind.

        Returns:
            The largest difference of log-probabilities.
        """
        said = answers.logprobs.get((number, 0), [])
        end = answers.done[number, 0].reason == "stop"
        assert answers.done[number, 0].completion_tokens == len(said)
        tokens = (*prompt, *(entry.chosen.token for entry in said))
        alone = self._entries(tokens)[len(prompt) :]
        differences = [0.0]
        for mine, theirs in zip(said, alone, strict=False):
            differences += _apart(mine, theirs)
            if greedy:
                differences.append(_behind(theirs, theirs.chosen.logprob or 0.0))
        if end and greedy:
            ends = [one for one in alone[-1].top if one.token in self._engine._vocabulary.ends]
            differences.append(_behind(alone[-1], max((one.logprob or 0.0 for one in ends), default=-99.0)))
        return max(differences)

    def _entries(self, tokens: tuple[int, ...]) -> list[TokenLogprob]:
        """For each token, and for what comes after the last."""
        if tokens not in self._read:
            assert not self._engine.busy
            number = len(self._read) + 1_000_000
            one_more = (*tokens, tokens[0])
            ask = Generate(id=number, token_ids=one_more, max_tokens=0, echo=True, logprobs=LOGPROBS, scope="alone")
            self._engine.submit(self._engine.prepare(ask))
            entries = list[TokenLogprob]()
            while self._engine.busy:
                entries += [
                    entry for event in self._engine.step() if isinstance(event, Echo) for entry in event.logprobs
                ]
            assert len(one_more) == len(entries)
            self._read[tokens] = entries
        return self._read[tokens]


def _apart(mine: TokenLogprob, theirs: TokenLogprob) -> list[float]:
    assert mine.chosen.token == theirs.chosen.token
    known = {one.token: one.logprob or 0.0 for one in (*theirs.top, theirs.chosen)}
    both = [(one.logprob or 0.0, known[one.token]) for one in (*mine.top, mine.chosen) if one.token in known]
    return [abs(here - there) for here, there in both]


def _behind(entry: TokenLogprob, logprob: float) -> float:
    return (entry.top[0].logprob or 0.0) - logprob
