"""What is remembered, shared, thrown out and restored, on the real model: never another's, and the same answers."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded_engine.engine import Engine
from embedded_engine.messages import ChatMessage, Generate
from embedded_engine.settings import EngineSettings
from tests.integration.embedded_engine.alone import LOGPROBS, ROUNDING, Alone
from tests.unit.embedded_engine.toy import Answers, run

pytestmark = pytest.mark.model

_WORDS = (
    *("OTTER", "CANDLE", "VIOLET", "HAMMER", "LEMON", "PEBBLE", "TIGER", "WINDOW"),
    *("BASKET", "COMET", "FEATHER", "GARDEN", "HARBOUR", "KETTLE", "MARBLE", "NEEDLE"),
)


@pytest.fixture(scope="module")
def crowded(default_model_path: Path) -> Iterator[Engine]:
    """An engine with too few cells for those who come, little memory for what is remembered, and files for the rest."""
    sizes = {"context_tokens": 256, "slots": 6, "lanes": 2, "kv_tokens": 512, "threads": 1}
    memory = {"prefix_cache_bytes": 6_000_000, "prefix_spill_bytes": 20_000_000}
    engine = Engine(EngineSettings(model_path=str(default_model_path), **sizes, **memory))
    yield engine
    engine.close()


def _ask(number: int, word: str, *, beginning: str = "", **fields: Any) -> Generate:
    content = f"{beginning}The secret word is {word}. Say the secret word, and then tell of a river."
    usual: dict[str, Any] = {"temperature": 0, "max_tokens": 30, "logprobs": LOGPROBS}
    return Generate(id=number, messages=(ChatMessage(role="user", content=content),), **(usual | fields))


def test_nobodys_answer_owes_anything_to_the_crowd(crowded: Engine) -> None:
    """Sixteen at once, each with a secret, half of them dropped, and again: all that is said has its own likelihood.

    Who meets whom, and where, depends on the machine's pace. That none of it shows is told by numbers that do not: at
    each token the likelihoods are those of the same text alone, but for rounding.
    """
    dice = random.Random(5)  # noqa: S311 - who is dropped, no secret
    crowds = []
    for _cold_then_warm in range(2):
        answers, kept = Answers(), dice.sample(range(len(_WORDS)), 8)
        for number, word in enumerate(_WORDS):
            crowded.submit(crowded.prepare(_ask(number, word)))
            for _ in range(dice.randint(0, 3)):
                answers.take(crowded.step())
        for number in set(range(len(_WORDS))) - set(kept):
            crowded.cancel(number)
        while crowded.busy:
            answers.take(crowded.step())
        assert {} == answers.failed
        assert (0, 512) == (crowded.running, crowded.free_kv_tokens)
        crowds += [(answers, number) for number in kept]
    alone = Alone(crowded)
    for answers, number in crowds:
        prompt = crowded.prepare(_ask(number, _WORDS[number])).prompt
        assert alone.furthest(prompt, answers, number) < ROUNDING, answers.text(number)
    answers, number = crowds[0]
    another = crowded.prepare(_ask(number, _WORDS[number - 1])).prompt
    assert alone.furthest(another, answers, number) > ROUNDING, "another's answer would not be noticed"


def test_a_known_beginning_is_restored_and_not_read_again(crowded: Engine) -> None:
    """From memory, from a file and from a neighbour that runs: each token has the likelihood that reading gives it."""
    beginning = "A mill needs water, wind or oxen, and somebody who gets up early. " * 8
    prompt = crowded.prepare(_ask(1, "OTTER", beginning=beginning)).prompt
    alone = Alone(crowded)
    cold = run(crowded, _ask(1, "OTTER", beginning=beginning, scope="cold"))
    assert cold.done[1, 0].measured.cached_tokens < 16
    assert alone.furthest(prompt, cold, 1) == 0, "alone, no sum is made in another order"
    for filler in range(3):
        warm = run(crowded, _ask(2, "OTTER", beginning=beginning, scope="cold"))
        assert len(prompt) - 1 == warm.done[2, 0].measured.cached_tokens
        assert alone.furthest(prompt, warm, 2) < ROUNDING
        run(crowded, *(_ask(10 + number, word, scope=f"filler {filler}") for number, word in enumerate(_WORDS[:5])))
    assert crowded._cache._saved.used_file_bytes > 0
    crowded.submit(crowded.prepare(_ask(3, "OTTER", beginning=beginning, scope="neighbours")))
    answers = Answers()
    while crowded.drawn_tokens and not answers.texts:
        answers.take(crowded.step())
    crowded.submit(crowded.prepare(_ask(4, "OTTER", beginning=beginning, scope="neighbours")))
    while crowded.busy:
        answers.take(crowded.step())
    assert len(prompt) - 1 == answers.done[4, 0].measured.cached_tokens
    for number in (3, 4):
        assert alone.furthest(prompt, answers, number) < ROUNDING
