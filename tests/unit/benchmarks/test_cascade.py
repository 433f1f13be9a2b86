from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Questions of which the weak model knows every second, and the strong one three of four."""
    monkeypatch.syspath_prepend(str(FOLDER))
    from mmlu import STRONG, WEAK, Question

    return [
        Question(
            subject="s",
            prompt=f"Question {number}?",
            right={WEAK: number % 2 == 0, STRONG: number % 4 < 3},
            usd={WEAK: 0.001, STRONG: 0.01},
        )
        for number in range(40)
    ]


@pytest.mark.parametrize(
    ("number", "right", "usd"), [(0, True, 0.001), (1, True, 0.011), (2, True, 0.001), (3, False, 0.011)]
)
def test_a_perfect_judge_keeps_what_is_right_and_pays_twice_for_the_rest(
    questions: list[Any], number: int, right: bool, usd: float
) -> None:
    """Both models are paid for where the first was wrong."""
    from cascade import cascaded

    assert (right, pytest.approx(usd)) == cascaded(questions[number], 1.0)


def test_a_better_judge_gives_better_answers(questions: list[Any]) -> None:
    """And no cascade beats who knows all answers."""
    from cascade import reckoned

    points = reckoned(questions, judge_usd=0.0)
    oracle = next(point for point in points if point.name == "oracle")
    cascades = [point for point in points if point.name == "cascade"]
    assert sorted(point.right for point in cascades) == [point.right for point in cascades]
    assert oracle.right == cascades[-1].right
    assert oracle.usd_per_thousand < cascades[-1].usd_per_thousand


async def test_the_pipeline_comes_to_what_was_reckoned(questions: list[Any]) -> None:
    """Answer by answer."""
    from cascade import cascaded
    from cascade_served import serve

    served = await serve(questions, 0.8)
    assert [cascaded(question, 0.8).right for question in questions] == [one.right for one in served]
