"""Reckons the figures of ``policies/classify/length_prior.json`` from rows of answers, and prints or writes them.

    python tests/benchmarks/train_forecast.py ROWS.jsonl.gz --source "what they are" [--write]

The figures are effects of documented quantities and phrases on the median length: one median regression for the first
turns and one for the later ones, rounded to two digits behind the point. No text, no table of words and no tree is
kept. ``docs/decisions/`` says which rows may be used for what.
"""

import argparse
import sys
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from gateway.learning.forecast_rows import Conversations, read_rows
from policies.classify._length_prior import (
    Formula,
    LengthPrior,
    PriorFigures,
    has_phrase,
    quantities_in_logs,
    to_level,
)
from policies.classify._quantities import Quantities, measure

_TARGET = Path(__file__).parents[2] / "policies" / "classify" / "length_prior.json"
_FIRST = ("prompt_chars", "lines", "asked_tokens")
_LATER = (*_FIRST, "turns", "last_answer", "answer_before", "mean_answer")
_PHRASES = (
    "write", "essay", "article", "story", "email", "list", "table", "code", "function", "explain", "describe",
    "how to", "what is", "why", "detail", "summar", "short", "brief", "one sentence", "only", "translate", "yes or no",
    "continue", "thank", "create", "plan", "improve", "title", "```",
)  # fmt: skip
_SMOOTHING = 0.05
_ROUNDS = 40
_LEAST_EFFECT = 0.1

Array = npt.NDArray[np.floating]


def main() -> int:
    """Prints the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--source", required=True, help="what the answers are, for the file")
    parser.add_argument("--write", action="store_true", help=f"write {_TARGET.name}")
    arguments = parser.parse_args()
    seen, levels, conversations = [], [], Conversations()
    for row in read_rows(arguments.rows):
        seen.append(measure(conversations.request(row)))
        levels.append(to_level(row.answer_tokens))
    first = [place for place, one in enumerate(seen) if not one.answers]
    later = [place for place, one in enumerate(seen) if one.answers]
    formulas = [
        _fitted([seen[i] for i in places], np.array([levels[i] for i in places]), names)
        for places, names in ((first, _FIRST), (later, _LATER))
    ]
    figures = PriorFigures(
        source=arguments.source, answers=len(seen), spread=0.0, first_turn=formulas[0], later_turns=formulas[1]
    )
    prior = LengthPrior(figures)
    apart = np.abs(np.array([prior.level(one) for one in seen]) - np.array(levels))
    figures = msgspec.structs.replace(figures, spread=round(float(apart.mean()), 2))
    text = msgspec.json.format(msgspec.json.encode(figures), indent=2)
    if arguments.write:
        _TARGET.write_bytes(text + b"\n")
    sys.stdout.buffer.write(text + b"\n")
    return 0


def _fitted(seen: list[Quantities], levels: Array, names: tuple[str, ...]) -> Formula:
    columns = [[1.0, *(quantities_in_logs(one)[name] for name in names)] for one in seen]
    present = [[float(has_phrase(one, phrase)) for phrase in _PHRASES] for one in seen]
    effects = _median_regression(np.hstack([np.array(columns), np.array(present)]), levels)
    rounded = [round(float(effect), 2) for effect in effects]
    middle = 1 + len(names)
    return Formula(
        constant=rounded[0],
        per_log=dict(zip(names, rounded[1:middle], strict=True)),
        phrases={
            phrase: effect
            for phrase, effect in zip(_PHRASES, rounded[middle:], strict=True)
            if abs(effect) >= _LEAST_EFFECT
        },
    )


def _median_regression(x: Array, y: Array) -> Array:
    """Least absolute deviations by re-weighted least squares, with a touch of ridge."""
    weights: Array = np.ones(len(y))
    effects: Array = np.zeros(x.shape[1])
    for _ in range(_ROUNDS):
        weighted = x * weights[:, None]
        effects = np.linalg.solve(weighted.T @ x + np.eye(x.shape[1]), weighted.T @ y)
        weights = 1 / np.maximum(np.abs(y - x @ effects), _SMOOTHING)
    return effects


if __name__ == "__main__":
    sys.exit(main())
