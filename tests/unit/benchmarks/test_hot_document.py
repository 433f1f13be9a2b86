"""The trace with a hot document is what its description says."""

import itertools
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gateway.replay.trace import TraceOptions, read_trace


@pytest.fixture(scope="module")
def hot_document(benchmark_module: Callable[[str], ModuleType]) -> ModuleType:
    """The module under test."""
    return benchmark_module("hot_document")


@pytest.fixture(scope="module")
def rows(hot_document: ModuleType) -> list[dict[str, Any]]:
    """All of them."""
    return list(hot_document.requests())


def test_the_trace_is_the_same_every_time(hot_document: ModuleType, rows: list[dict[str, Any]]) -> None:
    """And another one for another seed."""
    beginning = [list(itertools.islice(hot_document.requests(seed), 50)) for seed in (1, 2)]
    assert rows[:50] == beginning[0] != beginning[1]


def test_its_rows_can_be_replayed(hot_document: ModuleType, tmp_path: Path) -> None:
    """In order, with as many blocks as the prompt has."""
    path = tmp_path / "hot.jsonl"
    hot_document.write(path, rows=300)
    requests = list(read_trace(path, TraceOptions()))
    assert 300 == len(requests) == len(path.read_text().splitlines())
    assert all(len(request.blocks) == -(-request.prompt_tokens // 512) for request in requests)
    assert json.loads(path.read_text().splitlines()[0])["hash_ids"]


def test_a_crowd_asks_about_a_document_that_nobody_has_seen(rows: list[dict[str, Any]]) -> None:
    """From 500 s on, for two minutes; and no other document is asked about half as often meanwhile."""
    documents = [row for row in rows if row["hash_ids"][0] != 0]
    heads = Counter(tuple(row["hash_ids"][:2]) for row in documents if 500_000 < row["timestamp"] < 620_000)
    (crowd, asked), (_, next_most) = heads.most_common(2)
    seen = [row["timestamp"] for row in documents if tuple(row["hash_ids"][:2]) == crowd]
    assert asked > 2 * next_most > 0
    assert 500_000 < min(seen) < max(seen) < 622_000
