"""What is known of the length of answers before any was seen: a short formula, whose figures ship with the package.

::

    log(tokens + 100) = constant + sum of effect x quantity + sum of the effects of the phrases in the prompt

There is one such formula for the first turn of a conversation, and one for later turns. ``length_prior.json`` holds the
figures, where they come from, and what the answers were that they sum up; ``docs/forecast.md`` shows them.
"""

from collections.abc import Mapping
from importlib.resources import files
from math import exp, log, log1p

import msgspec
from msgspec import Struct

from policies.classify._quantities import Quantities

_OFFSET_TOKENS = 100.0
_LONGEST_TOKENS = 131_072
_PHRASE_BYTES = 200


class Formula(Struct, frozen=True):
    """``per_log`` are effects by quantity, ``phrases`` by what stands in the prompt."""

    constant: float
    per_log: Mapping[str, float]
    phrases: Mapping[str, float]


class PriorFigures(Struct, frozen=True):
    """What the file holds. ``spread`` is the mean distance of answers from the formula, in log space."""

    source: str
    answers: int
    spread: float
    first_turn: Formula
    later_turns: Formula


class LengthPrior:
    """The formulas, made ready for requests."""

    __slots__ = ("_first_turn", "_later_turns", "spread")

    def __init__(self, figures: PriorFigures) -> None:
        self.spread = figures.spread
        self._first_turn, self._later_turns = _ready(figures.first_turn), _ready(figures.later_turns)

    def level(self, seen: Quantities) -> float:
        """The median answer to a request, as a level."""
        constant, per_log, phrases = self._later_turns if seen.answers else self._first_turn
        logs = quantities_in_logs(seen)
        opening = seen.prompt[:_PHRASE_BYTES].decode("latin-1")
        return (
            constant
            + sum([effect * logs[name] for name, effect in per_log])
            + sum([effect for phrase, effect in phrases if phrase in opening])
        )


def _ready(formula: Formula) -> tuple[float, list[tuple[str, float]], list[tuple[str, float]]]:
    """Phrases as text of one character a byte: in bytes, Python would take each for a number first, and raise."""
    phrases = [(phrase.encode().decode("latin-1"), effect) for phrase, effect in formula.phrases.items()]
    return formula.constant, list(formula.per_log.items()), phrases


def has_phrase(seen: Quantities, phrase: str) -> bool:
    """Whether the prompt opens with it, or near: in its first 200 bytes, where it says what it wants."""
    return phrase.encode() in seen.prompt[:_PHRASE_BYTES]


def quantities_in_logs(seen: Quantities) -> dict[str, float]:
    """The quantities that a formula may use; lengths of answers are levels, and 0 where there are none."""
    answers = seen.answers
    last = to_level(answers[0]) if answers else 0.0
    return {
        "prompt_chars": log1p(seen.prompt_chars),
        "lines": log1p(seen.lines),
        "asked_tokens": to_level(seen.asked_tokens) - 5.0 if seen.asked_tokens else 0.0,
        "turns": log1p(seen.turns),
        "last_answer": last,
        "answer_before": to_level(answers[1]) if len(answers) > 1 else last,
        "mean_answer": to_level(seen.mean_answer) if answers else 0.0,
    }


def to_level(tokens: float) -> float:
    """Lengths are compared as ``log(tokens + 100)``: below some hundred tokens all answers are short."""
    return log(tokens + _OFFSET_TOKENS)


def to_tokens(level: float) -> int:
    """The whole number of tokens nearest to a level; from none to as long as answers get."""
    if level >= _LONGEST_LEVEL:
        return _LONGEST_TOKENS
    return max(round(exp(level) - _OFFSET_TOKENS), 0)


_LONGEST_LEVEL = to_level(_LONGEST_TOKENS)


def read_prior() -> LengthPrior:
    """The figures that ship with the package."""
    text = files("policies.classify").joinpath("length_prior.json").read_bytes()
    return LengthPrior(msgspec.json.decode(text, type=PriorFigures))
