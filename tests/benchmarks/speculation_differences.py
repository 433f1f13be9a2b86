"""Do greedy answers differ with and without drafts? Two hundred prompts, all ways to draft, no difference unexplained.

    python tests/benchmarks/speculation_differences.py                      200 prompts, 24 tokens each; an hour
    python tests/benchmarks/speculation_differences.py --prompts 40 --kernels llama_cpp

The reference decodes each prompt alone, without drafts. Then drafts of up to 1, 2, 4, 8 and 16 tokens, four prompts at
once, the same prompts again out of the prefix cache, drafts that are always wrong, and drafts that are the very answer.
An answer may leave the reference only where the reference's two likeliest tokens are closer than `--epsilon`, since a
row that is computed among others may be rounded otherwise; such differences are counted, any other ends in exit code 1.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from typing import Any

from figures import table
from speculation_prompts import PROMPTS

from embedded_engine.engine import Engine
from embedded_engine.known_models import DEFAULT_MODEL
from embedded_engine.messages import Failed, Generate, Text
from embedded_engine.models import default_model_dir
from embedded_engine.pull import pull_model
from embedded_engine.settings import EngineSettings
from embedded_engine.speculation.draft import Draft
from embedded_engine.speculative import Speculative

TOKENS = 24
TOGETHER = 4

Answer = list[tuple[str, float]]
"""Its tokens, each with the lead of the likeliest over the next."""

_numbers = count(1)
_MORE = (
    "日本の首都は東京です。フランスの首都は",
    "中国的首都是北京。日本的首都是",
    "한국의 수도는 서울이고 일본의 수도는",
    "red, green, blue, red, green, blue, red, green,",
    "0 1 0 1 0 1 0 1 0 1 0",
)


def main() -> int:
    """Compare and report."""
    arguments = _arguments()
    model = pull_model(DEFAULT_MODEL, default_model_dir(), say=print, progress=lambda _done, _total: None)
    settings = {"context_tokens": 512, "slots": TOGETHER, "threads": 1, "kernels": arguments.kernels}
    engine = Engine(EngineSettings(model_path=model.path, **settings))
    prompts = list(islice(_prompts(), arguments.prompts))
    outputs: list[list[int]] = []
    ended = engine._speculator.end
    engine._speculator.end = lambda draft: (outputs.append(draft.output), ended(draft))[1]  # type: ignore[method-assign]
    expected = [_answers(engine, [prompt], speculative=Speculative(enabled=False))[0] for prompt in prompts]
    rows, unexplained = [], 0
    for name, answers in _ways(engine, prompts, outputs):
        differing = [_first_lead(ours, theirs) for ours, theirs in zip(expected, answers, strict=True)]
        leads = [lead for lead in differing if lead is not None]
        unexplained += sum(lead >= arguments.epsilon for lead in leads)
        rows.append([name, str(len(leads)), f"{max(leads):.3f}" if leads else ""])
        print(*rows[-1], file=sys.stderr, flush=True)
    print(table([f"{len(prompts)} prompts", "other answers", "largest lead where they part"], rows))
    print(f"farther apart than {arguments.epsilon}: {unexplained}")
    return int(unexplained > 0)


def _prompts() -> Iterator[str]:
    """Beginnings of the other benchmark's prompts, in several lengths, and texts that repeat or are no English."""
    yield from _MORE
    for quarter in (4, 3, 2, 1):
        for prompts in PROMPTS.values():
            for prompt in prompts:
                yield prompt[: len(prompt) * quarter // 4]
    for prompts in PROMPTS.values():
        yield (prompts[0] + " ") * 3
        yield (prompts[1] + " ") * 2


def _ways(engine: Engine, prompts: Sequence[str], outputs: Sequence[list[int]]) -> Iterator[tuple[str, list[Answer]]]:
    for n_max in (1, 2, 4, 8, 16):
        drafts = {"speculative": Speculative(n_max=n_max), "scope": f"cold {n_max}"}
        yield f"drafts of up to {n_max}", [_answers(engine, [prompt], **drafts)[0] for prompt in prompts]
    yield "again, from the prefix cache", [_answers(engine, [prompt], **drafts)[0] for prompt in prompts]
    together = [prompts[start : start + TOGETHER] for start in range(0, len(prompts), TOGETHER)]
    yield "four at once", [answer for group in together for answer in _answers(engine, group, scope="four")]
    for name, propose in {"always wrong": lambda _: (17, 19, 23), "always right": _oracle(outputs)}.items():
        _draft(engine, propose)
        yield name, [_answers(engine, [prompt], scope=name)[0] for prompt in prompts]


def _oracle(outputs: Sequence[list[int]]) -> Callable[[Draft], Sequence[int]]:
    known = list(outputs)

    def propose(draft: Draft) -> Sequence[int]:
        so_far = draft.output
        return next((o[len(so_far) :] for o in known if so_far and o[: len(so_far)] == so_far), ())[:8]

    return propose


def _draft(engine: Engine, propose: Callable[[Draft], Sequence[int]]) -> None:
    """Let the engine draft what it is told, whatever it costs."""

    def plan(drafts: Sequence[Draft], *, most: Sequence[int], room_rows: int, **_: Any) -> list[tuple[int, ...]]:
        each = room_rows // max(1, len(drafts))
        return [tuple(propose(draft))[: max(0, min(each, limit))] for draft, limit in zip(drafts, most, strict=True)]

    engine._speculator.plan = plan  # type: ignore[method-assign]


def _answers(engine: Engine, prompts: Sequence[str], **fields: Any) -> list[Answer]:
    ids = {next(_numbers): place for place in range(len(prompts))}
    answers: list[Answer] = [[] for _ in prompts]
    for number, place in ids.items():
        request = {"text": prompts[place], "temperature": 0, "max_tokens": TOKENS, "logprobs": 2}
        engine.submit(engine.prepare(Generate(id=number, **request, **fields)))
    while engine.busy:
        for event in engine.step():
            if isinstance(event, Failed):
                raise SystemExit(f"the engine failed: {event.message}")
            if isinstance(event, Text):
                answers[ids[event.id]] += [
                    (entry.chosen.token, entry.top[0].logprob - entry.top[1].logprob) for entry in event.logprobs
                ]
    return answers


def _first_lead(reference: Answer, answer: Answer) -> float | None:
    """The lead of the reference's likeliest token where the two part; None where they don't."""
    for (token, lead), (other, _) in zip(reference, answer, strict=False):
        if token != other:
            return lead
    return None if len(reference) == len(answer) else 0.0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--kernels", default="", help="ik_llama or llama_cpp; the first that is installed")
    parser.add_argument("--epsilon", type=float, default=0.3)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
