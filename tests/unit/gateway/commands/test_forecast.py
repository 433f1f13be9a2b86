"""`headrace forecast eval`: figures on rows, as text and as JSON, and what it says of a bad file."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]

FIGURES = [
    "tau", "first_turn_tau", "mae", "median_mae", "class_accuracy", "p50_coverage", "p90_coverage", "cpu_us_p50",
    "cpu_us_p99",
]  # fmt: skip


@pytest.fixture
def rows_file(tmp_path: Path) -> Path:
    """200 conversations of two turns; what is asked for decides how long the answer is."""
    dice = random.Random(1)  # noqa: S311  # the same every time
    rows: list[dict[str, Any]] = []
    for conv in range(200):
        before: list[int] = []
        for turn in range(2):
            kind, tokens = dice.choice([("lemon", 900), ("orange", 30)])
            row = {"conv": conv, "turn": turn, "prompt": f"the {kind} of {conv}", "context_tokens": 8 + sum(before)}
            answer = round(tokens * dice.uniform(0.8, 1.2))
            rows.append({**row, "prev_answer_tokens": before[:], "answer_tokens": answer})
            before.append(answer)
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_online_learns_what_cold_cannot_know(run: Run, rows_file: Path) -> None:
    """Lemons are long here. The figures are those that the issue names, in their order."""
    code, out, _ = run("forecast", "eval", rows_file, "--json")
    found = json.loads(out)
    assert (0, 400, FIGURES, FIGURES) == (code, found["rows"], list(found["cold"]), list(found["online"]))
    assert found["online"]["tau"] > 0.4 > found["cold"]["tau"]
    assert found["online"]["mae"] < 0.5 * found["online"]["median_mae"]
    assert found["cold"]["median_mae"] == found["online"]["median_mae"]
    assert 0 < found["online"]["cpu_us_p50"] <= found["online"]["cpu_us_p99"]


def test_the_text_explains_each_figure(run: Run, rows_file: Path) -> None:
    """One line each, for both."""
    code, out, _ = run("forecast", "eval", rows_file)
    assert (0, "400 rows") == (code, out.splitlines()[0])
    assert FIGURES == [line.split()[0] for line in out.splitlines()[3:]]


def test_another_classifier_can_be_measured(run: Run, rows_file: Path) -> None:
    """By its name."""
    code, out, _ = run("forecast", "eval", rows_file, "--json", "--classify", "by_length")
    assert (0, None) == (code, json.loads(out)["cold"]["tau"])
    code, _, err = run("forecast", "eval", rows_file, "--classify", "by_lenght")
    assert (1, True) == (code, "did you mean `by_length`?" in err)


def test_one_row_has_figures_but_no_correlation(run: Run, tmp_path: Path, rows_file: Path) -> None:
    """It is null, which is not nought."""
    path = tmp_path / "one.jsonl"
    path.write_text(rows_file.read_text().partition("\n")[0])
    code, out, _ = run("forecast", "eval", path, "--json")
    assert (0, None, 0.0) == (code, json.loads(out)["online"]["tau"], json.loads(out)["online"]["median_mae"])
    assert "tau                     -        -" in run("forecast", "eval", path)[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "there is no row in it"), ("\n\n", "there is no row in it"), ("\nnonsense", "line 2"), ("{}", "line 1")],
)
def test_a_file_without_rows_or_with_a_bad_one_is_an_error_with_its_line(
    run: Run, tmp_path: Path, text: str, words: str
) -> None:
    """And no figures of half a file."""
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    code, out, err = run("forecast", "eval", path, "--json")
    assert (1, "", True, True) == (code, out, words in err, "rows.jsonl" in err)
