"""The bound: gradient-boosted trees that are trained at leisure on the first half of the rows. Needs scikit-learn."""

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from gateway.forecast import Forecast
from gateway.learning.forecast_rows import Conversations, Row
from policies.classify._length_prior import quantities_in_logs, to_level, to_tokens
from policies.classify._quantities import measure

_PHRASES = (
    "continue", "go on", "more", "write", "rewrite", "code", "explain", "list", "summar", "translate", "short", "brief",
    "detail", "essay", "article", "story", "email", "table", "example", "function", "fix", "error", "thank", "yes",
    "what is", "how ", "why", "give me", "create", "generate", "step", "json", "only", "just", "answer", "blog", "poem",
    "title", "outline", "html", "python", "sql", "plan", "analy", "compare", "define", "act as", "ok", "sentence",
    "word", "paragraph", "```", "?",
)  # fmt: skip


def tree_forecasts(rows: list[Row]) -> Iterator[Forecast]:
    """Forecasts of the second half: median and 90th percentile, each from trees of its own."""
    ensemble = importlib.import_module("sklearn.ensemble")
    limits = importlib.import_module("threadpoolctl").threadpool_limits  # many threads wait busily for each other
    conversations = Conversations()
    features = np.array([_numbers(conversations, row) for row in rows])
    levels = np.array([to_level(row.answer_tokens) for row in rows])
    middle = (len(rows) + 1) // 2
    found: list[Any] = []
    for loss in ({"loss": "absolute_error"}, {"loss": "quantile", "quantile": 0.9}):
        trees = ensemble.HistGradientBoostingRegressor(**loss, max_iter=200, learning_rate=0.08, min_samples_leaf=40)
        with limits(1):
            found.append(trees.fit(features[:middle], levels[:middle]).predict(features[middle:]))
    for p50, p90 in zip(*found, strict=True):
        tokens = to_tokens(float(p50))
        yield Forecast(prompt_tokens=0, output_tokens_p50=tokens, output_tokens_p90=max(tokens, to_tokens(float(p90))))


def _numbers(conversations: Conversations, row: Row) -> list[float]:
    seen = measure(conversations.request(row))
    answers = seen.answers
    prompt = seen.prompt
    return [
        *quantities_in_logs(seen).values(),
        to_level(max(answers)) if answers else 0.0,
        to_level(min(answers)) if answers else 0.0,
        seen.context_tokens,
        float("```" in seen.tail),
        float(ord(seen.tail[-1]) if seen.tail else 0),
        *(float(phrase.encode() in prompt) for phrase in _PHRASES),
    ]
