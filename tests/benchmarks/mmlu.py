"""Questions that a weak and a strong model have answered: RouteLLM's tables of MMLU, 14,042 rows of 57 subjects."""

import csv
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

WEAK, STRONG = "mistralai/Mixtral-8x7B-Instruct-v0.1", "gpt-4-1106-preview"
PRICES = {WEAK: (0.9, 0.9), STRONG: (10.0, 30.0)}
"""US dollars per million tokens of input and of output, as Together and OpenAI list them."""

ANSWER_TOKENS = 4
_BYTES_PER_TOKEN = 4
_PREFIX = "mmlu_"


class Question(NamedTuple):
    """A question and whether each model was right; ``usd`` is what each answer costs."""

    subject: str
    prompt: str
    right: dict[str, bool]
    usd: dict[str, float]


def read_questions(archive: Path, *, seed: int = 8) -> list[Question]:
    """All questions, shuffled alike for everybody who asks with the same seed."""
    questions = list(_questions(archive))
    Random(seed).shuffle(questions)  # noqa: S311  # an order, no secret
    return questions


def tokens_of(prompt: str) -> int:
    """About how many tokens a prompt has."""
    return -(-len(prompt.encode()) // _BYTES_PER_TOKEN)


def _questions(archive: Path) -> Iterator[Question]:
    with tarfile.open(archive) as tables:
        for member in sorted(tables.getmembers(), key=lambda one: one.name):
            file = tables.extractfile(member) if member.name.endswith(".csv") else None
            if file is None:
                continue
            subject = Path(member.name).stem.removeprefix(_PREFIX)
            for row in csv.DictReader(io.StringIO(file.read().decode())):
                tokens = tokens_of(row["prompt"])
                yield Question(
                    subject=subject,
                    prompt=row["prompt"],
                    right={model: row[model] == "True" for model in PRICES},
                    usd={name: (tokens * i + ANSWER_TOKENS * o) / 1e6 for name, (i, o) in PRICES.items()},
                )
