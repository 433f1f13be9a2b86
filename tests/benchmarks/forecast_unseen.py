"""What happens when the forecast knows nothing: a model that was never seen, and one that is replaced."""

import json
import random
import statistics
from collections.abc import Mapping
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gateway.learning.forecast_rows import Conversations, Row, entry_of
from policies.classify.learned_length import LearnedLength

_SHUFFLES = 8
_FIRST, _LAST = 50, 300
_BEFORE = 3000
_WINDOWS = (0, 100, 200, 600, 1000)
_CHARS_PER_TOKEN = 4


def unseen(folder: Path) -> Mapping[str, Mapping[str, float]]:
    """Each model's answers in eight random orders: those from the 51st to the 300th, beside its running median."""
    return {path.stem: _of_model(path) for path in sorted(folder.glob("*.json"))}


def _of_model(path: Path) -> Mapping[str, float]:
    rows = [
        Row(
            conv=number,
            turn=0,
            prompt=one["instruction"],
            context_tokens=len(one["instruction"]) // _CHARS_PER_TOKEN,
            prev_answer_tokens=[],
            answer_tokens=max(len(one["output"]) // _CHARS_PER_TOKEN, 1),
            model=path.stem,
        )
        for number, one in enumerate(json.loads(path.read_text()))
    ]
    off, off_median, within = [], [], []
    for shuffle in range(_SHUFFLES):
        policy, conversations = LearnedLength(), Conversations()
        seen: list[int] = []
        dice = random.Random(shuffle)  # noqa: S311  # an order, no secret
        for place, row in enumerate(dice.sample(rows, _LAST)):
            request = conversations.request(row)
            forecast = policy.forecast(request)
            if place >= _FIRST:
                off.append(abs(forecast.output_tokens_p50 - row.answer_tokens))
                off_median.append(abs(statistics.median(seen) - row.answer_tokens))
                within.append(row.answer_tokens <= forecast.output_tokens_p90)
            policy.observe(entry_of(request, row))
            seen.append(row.answer_tokens)
    mae, median_mae = statistics.fmean(off), statistics.fmean(off_median)
    return {
        "mae": mae,
        "median_mae": median_mae,
        "gain": 1 - mae / median_mae,
        "p90_coverage": statistics.fmean(within),
    }


def replaced(rows: list[Row]) -> Mapping[str, list[float]]:
    """After 3,000 answers all are twice, or half, as long: the share within p90, by how many came since.

    Empty where there are fewer than 4,000 rows.
    """
    if len(rows) < _BEFORE + _WINDOWS[-1]:
        return {}
    return {f"{factor:g}": _coverage(rows, factor) for factor in (2.0, 0.5)}


def _coverage(rows: list[Row], factor: float) -> list[float]:
    policy, conversations = LearnedLength(), Conversations()
    within: list[bool] = []
    for place, row in enumerate(islice(rows, _BEFORE + _WINDOWS[-1])):
        answered: Any = row if place < _BEFORE else _longer(row, factor)
        request = conversations.request(answered)
        forecast = policy.forecast(request)
        if place >= _BEFORE:
            within.append(answered.answer_tokens <= forecast.output_tokens_p90)
        policy.observe(entry_of(request, answered))
    return [statistics.fmean(within[start:end]) for start, end in pairwise(_WINDOWS)]


def _longer(row: Row, factor: float) -> Row:
    """As a model would have it that answers ``factor`` times as long, whatever is asked."""
    return replace(row, answer_tokens=round(row.answer_tokens * factor))
