"""What is remembered, shared, thrown out and restored, on the real model: never another's, and the same answers."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded_engine.engine import Engine
from embedded_engine.messages import ChatMessage, Generate
from embedded_engine.settings import EngineSettings
from embedded_engine.speculative import Speculative
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
    usual: dict[str, Any] = {"temperature": 0, "max_tokens": 30, "speculative": Speculative(exactness="strict")}
    return Generate(id=number, messages=(ChatMessage(role="user", content=content),), **(usual | fields))


def test_everybody_gets_the_answer_of_an_engine_alone(crowded: Engine) -> None:
    """Sixteen at once, each with a secret, half of them dropped, and again: nobody says another's secret.

    In a crowd logits differ a little from those of a sequence alone, for whoever shares the cells changes the order of
    sums, and a near tie may fall the other way: so few answers may go another way after their first words, and none may
    begin another way. That none is another's, token for token, is held by the toy model, whose arithmetic is exact.
    """
    dice = random.Random(5)  # noqa: S311 - who is dropped, no secret
    alone = {}
    for number, word in enumerate(_WORDS):
        alone[number] = run(crowded, _ask(number, word, scope="alone")).text(number)
    assert sum(word in alone[number].upper() for number, word in enumerate(_WORDS)) >= 12
    same = 0
    for _ in range(3):
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
        for number in kept:
            said = answers.text(number)
            others = [word for word in _WORDS if word != _WORDS[number] and word in said.upper()]
            assert [] == [word for word in others if word not in alone[number].upper()]
            assert alone[number][:20] == said[:20]
            same += said == alone[number]
    assert same >= 0.7 * 3 * 8
    assert (0, 512) == (crowded.running, crowded.free_kv_tokens)


def test_a_known_beginning_is_restored_and_not_read_again(crowded: Engine) -> None:
    """From memory, from a file and from a neighbour that runs: the answer is the one that reading gives."""
    beginning = "A mill needs water, wind or oxen, and somebody who gets up early. " * 8
    cold = run(crowded, _ask(1, "OTTER", beginning=beginning, scope="cold"))
    expected = cold.text(1)
    assert cold.done[1, 0].measured.cached_tokens < 16
    prompt_tokens = len(crowded.prepare(_ask(1, "OTTER", beginning=beginning)).prompt)
    for filler in range(3):
        warm = run(crowded, _ask(2, "OTTER", beginning=beginning, scope="cold"))
        assert prompt_tokens - 1 == warm.done[2, 0].measured.cached_tokens
        assert expected == warm.text(2)
        run(crowded, *(_ask(10 + number, word, scope=f"filler {filler}") for number, word in enumerate(_WORDS[:5])))
    assert crowded._cache._saved.used_file_bytes > 0
    crowded.submit(crowded.prepare(_ask(3, "OTTER", beginning=beginning, scope="neighbours")))
    answers = Answers()
    while crowded.drawn_tokens and not answers.texts:
        answers.take(crowded.step())
    crowded.submit(crowded.prepare(_ask(4, "OTTER", beginning=beginning, scope="neighbours")))
    while crowded.busy:
        answers.take(crowded.step())
    assert prompt_tokens - 1 == answers.done[4, 0].measured.cached_tokens
    assert (expected[:20], expected[:20]) == (answers.text(3)[:20], answers.text(4)[:20])
