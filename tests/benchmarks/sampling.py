"""What a token costs between the kernels' logits and its number: CPU microseconds a row, by what a request asks for.

    python tests/benchmarks/sampling.py
    python tests/benchmarks/sampling.py --json --rounds 9

The rows are those of the default model on a passage of prose, read from the model cache (``headrace model pull``). A
round draws every row for every kind of request by turns; the figure is the median of the rounds, with the extremes.
CPU time of this thread, so that a busy machine does not show.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from figures import figure, table

from embedded_engine.kernels.choose import load_kernels
from embedded_engine.kernels.port import ContextShape, Kernels, Row
from embedded_engine.known_models import DEFAULT_MODEL
from embedded_engine.messages import GrammarText
from embedded_engine.models import default_model_dir, find_model
from embedded_engine.sampling.chooser import Chooser
from embedded_engine.sampling.grammar_compiler import GrammarCompiler
from embedded_engine.sampling.parameters import Sampling
from embedded_engine.vocabulary import Vocabulary

_PROSE = """The mill had stood beside the river for longer than anybody could remember. In spring the water rose to the
second step, and the miller took the sacks upstairs; in August children crossed the race with dry knees. What he liked
best was the noise of the wheel at night, which told him, half asleep, how much it had rained in the hills."""
_GOAL_US = 200
_SCHEMA = '{"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]}'


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What a request asks for, and whether it wants to know log-probabilities."""

    name: str
    sampling: dict[str, Any] = field(default_factory=dict)
    logprobs: int | None = None
    grammar: GrammarText | None = None
    opening: str = ""


KINDS = (
    Kind(name="greedy", sampling={"temperature": 0.0}),
    Kind(name="greedy, penalties", sampling={"temperature": 0.0, "repetition_penalty": 1.1, "frequency_penalty": 0.2}),
    Kind(name="temperature 1"),
    Kind(name="temperature 0.7", sampling={"temperature": 0.7}),
    Kind(name="top-k 40", sampling={"top_k": 40}),
    Kind(name="top-p 0.9", sampling={"top_p": 0.9}),
    Kind(name="min-p 0.05", sampling={"min_p": 0.05}),
    Kind(name="top-k 50, top-p 0.9, penalties", sampling={"top_k": 50, "top_p": 0.9, "repetition_penalty": 1.1}),
    Kind(name="greedy, 5 logprobs", sampling={"temperature": 0.0}, logprobs=5),
    Kind(name="temperature 1, 5 logprobs", logprobs=5),
    Kind(
        name="greedy, in a string of a JSON Schema",
        sampling={"temperature": 0.0},
        grammar=GrammarText(kind="json_schema", text=_SCHEMA),
        opening='{"note": "',
    ),
    Kind(
        name="temperature 1, in a string of a JSON Schema",
        grammar=GrammarText(kind="json_schema", text=_SCHEMA),
        opening='{"note": "',
    ),
)


class Model:
    """The default model's logits on some prose, and what makes choosers for it."""

    def __init__(self) -> None:
        kernels = load_kernels(find_model(DEFAULT_MODEL, default_model_dir()).path)
        self.vocabulary = Vocabulary(kernels)
        self.tokens = kernels.tokenize(_PROSE, add_special=True, parse_special=False)
        self.rows = _logits(kernels, self.tokens)
        self._grammars = GrammarCompiler(self.vocabulary)

    def runner(self, kind: Kind) -> Callable[[], None]:
        """Draws each row once, each from a place in the answer of its own."""
        grammar = self._grammars.compile(kind.grammar)() if kind.grammar is not None else None
        chooser = Chooser(
            Sampling(seed=1, **kind.sampling),
            choice=0,
            prompt=self.tokens,
            ends=self.vocabulary.ends,
            grammar=grammar,
        )
        for token in self.vocabulary.tokenize_inside(kind.opening):
            chooser.advance(token)

        def run() -> None:
            for row in self.rows:
                drawn = chooser.draw(row)
                if kind.logprobs is not None:
                    self.vocabulary.spell(drawn.logprobs(kind.logprobs))
                chooser.advance(drawn.token)

        return run


def _logits(kernels: Kernels, tokens: list[int]) -> list[np.ndarray]:
    shape = ContextShape(kv_tokens=512, sequences=1, threads=1, batch_rows=31, micro_batch_rows=31)
    kernels.open_context(shape)
    rows = []
    for start in range(0, len(tokens), shape.batch_rows):
        part = tokens[start : start + shape.batch_rows]
        kernels.decode([Row(0, token, start + at, wants_logits=True) for at, token in enumerate(part)])
        rows += [kernels.logits(at).copy() for at in range(len(part))]
    return rows


def measure(rounds: int) -> dict[str, list[float]]:
    """By kind, CPU microseconds a row in each round."""
    model = Model()
    measured: dict[str, list[float]] = {kind.name: [] for kind in KINDS}
    for number in range(rounds + 1):
        for kind, microseconds in _round(model):
            if number:  # the first warms the caches
                measured[kind.name].append(microseconds)
    return measured


def _round(model: Model) -> Iterator[tuple[Kind, float]]:
    for kind in KINDS:
        run = model.runner(kind)
        started_s = time.thread_time()
        run()
        yield kind, (time.thread_time() - started_s) / len(model.rows) * 1e6


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="how often each kind is measured (default 5)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    figures = {name: figure(values) for name, values in measure(options.rounds).items()}
    if options.json:
        print(json.dumps({name: msgspec.to_builtins(value) for name, value in figures.items()}, indent=2))
        return
    print(table(("request", "us a row"), [(name, str(value)) for name, value in figures.items()]))
    slow = [name for name, value in figures.items() if value.median > _GOAL_US and "logprobs" not in name]
    print(f"\ngoal: {_GOAL_US} us a row; over it: {', '.join(slow) or 'none'}")


if __name__ == "__main__":
    main()
