import math
import random

import pytest

from embedded_engine.speculation.confidence import ConfidenceHead
from embedded_engine.speculation.ledger import Ledger

dice = random.Random(8)  # noqa: S311 - examples, not secrets


def _teach(head: ConfidenceHead, steps: int, weights: tuple[float, ...]) -> None:
    for _ in range(steps):
        features = (1.0, *(dice.gauss(0, 1) for _ in weights[1:]))
        chance = 1 / (1 + math.exp(-sum(w * x for w, x in zip(weights, features, strict=True))))
        head.learn(features, float(dice.random() < chance))


def test_it_learns_what_makes_a_guess_good() -> None:
    """From a thousand guesses that were right or wrong."""
    head = ConfidenceHead((0.0, 0.0, 0.0))
    assert 0.5 == pytest.approx(head.confidence((1.0, 0.3, 0.0)), abs=0.01)
    _teach(head, 2000, (-0.5, 1.5, 0.0))
    assert [-0.5, 1.5, 0.0] == pytest.approx(head.weights, abs=0.3)


def test_it_follows_a_change() -> None:
    """What was learned before the last thousand is forgotten."""
    head = ConfidenceHead((0.0, 0.0))
    _teach(head, 2000, (2.0, 0.0))
    _teach(head, 3000, (-2.0, 0.0))
    assert head.confidence((1.0, 0.0)) == pytest.approx(0.12, abs=0.05)


def test_a_few_guesses_do_not_change_it() -> None:
    """Up to a hundred it keeps what it was built with."""
    head = ConfidenceHead((1.0, 2.0))
    _teach(head, 99, (-3.0, 0.0))
    assert [1.0, 2.0] == head.weights
    _teach(head, 1, (-3.0, 0.0))
    assert head.weights[0] < 1.0


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_unanimous_labels_and_equal_features_do_not_upset_it(label: float) -> None:
    """A thousand times the same: confidence stays a probability, under one, and weights stay numbers."""
    head = ConfidenceHead((0.0, 0.0, 0.0))
    for _ in range(3000):
        head.learn((1.0, 1.0, 1.0), label)
    assert 0 <= head.confidence((1.0, 1.0, 1.0)) < 1
    assert abs(label - head.confidence((1.0, 1.0, 1.0))) < 0.05
    assert 0 == head.confidence((-1e9, 0.0, 0.0)) or head.weights[0] <= 0


def test_soft_labels_count_as_shares() -> None:
    """A probability of .3, a thousand times, is a confidence of .3."""
    head = ConfidenceHead((0.0,))
    for _ in range(1000):
        head.learn((1.0,), 0.3)
    assert 0.3 == pytest.approx(head.confidence((1.0,)), abs=0.02)


def test_the_ledger_counts_by_source() -> None:
    """Drafted, accepted, and how far confidence was from the truth."""
    ledger = Ledger()
    ledger.drafted(["markov", "markov", "repetition"], accepted=2)
    ledger.drafted(["markov"], accepted=0)
    ledger.judged("markov", confidence=0.85, probability=1.0)
    ledger.judged("markov", confidence=0.85, probability=0.5)
    ledger.judged("markov", confidence=1.0, probability=1.0)
    report = ledger.report()["markov"]
    assert (2, 3, 2) == (report.drafts, report.drafted, report.accepted)
    assert (0, 0, 0, 0, 0, 0, 0, 0, 2, 1) == report.judged
    assert (2 * 0.85 - 1.5) / 3 == pytest.approx(report.calibration_error)
    assert ["markov", "repetition"] == list(ledger.report())
