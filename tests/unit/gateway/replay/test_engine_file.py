import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.errors import ConfigurationError
from gateway.replay.engine import Engine, Event, Job
from gateway.replay.engine_file import Timing, fitted, read_engine
from gateway.replay.engine_model import EngineModel

TRUE = EngineModel(
    prefill_tokens_per_s=8000.0, attention_tokens=1e15, step_s=0.012, sequence_s=0.0004, held_token_s=2e-7
)


def _log(serve: Callable[..., list[Event]], job: Callable[..., Job]) -> list[Timing]:
    """What an engine of known speeds did with 200 requests, in quiet and in busy moments."""
    rng = random.Random(8)  # noqa: S311  # the same every time
    arrivals_s = sorted(rng.uniform(0, 150) for _ in range(200))
    jobs = [job(n, at_s, rng.randint(20, 3000), rng.randint(2, 300)) for n, at_s in enumerate(arrivals_s)]
    serve(Engine(TRUE, cache_blocks=1), jobs)
    return [
        Timing(
            input_toks=one.prompt_tokens,
            output_toks=one.output_tokens,
            scheduled_ts=max(one.arrived_s, one.first_token_s - one.prompt_tokens / 8000 - 0.02),
            first_token_ts=one.first_token_s,
            last_token_ts=one.finished_s,
        )
        for one in jobs
    ]


def test_speeds_are_found_in_the_log_of_an_engine(serve: Callable[..., list[Event]], job: Callable[..., Job]) -> None:
    """Those that the engine has, within a tenth; what a step costs beside eleven others within five percent."""
    found = fitted(_log(serve, job), file="log")
    assert TRUE.prefill_tokens_per_s == pytest.approx(found.prefill_tokens_per_s, rel=0.1)
    assert TRUE.decode_s(12, 12_000) == pytest.approx(found.decode_s(12, 12_000), rel=0.05)


def test_a_log_may_be_a_file_of_lines(
    serve: Callable[..., list[Event]], job: Callable[..., Job], tmp_path: Path
) -> None:
    """As validation logs of vLLM are; fields that we do not know are passed over."""
    path = tmp_path / "log.jsonl"
    rows = [
        {**{name: getattr(row, name) for name in row.__struct_fields__}, "request_id": "x"} for row in _log(serve, job)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert fitted(_log(serve, job), file="log") == read_engine(path)


def test_speeds_may_be_written_down(tmp_path: Path) -> None:
    """Those that are not keep their defaults."""
    path = tmp_path / "engine.json"
    path.write_text('{\n"prefill_tokens_per_s": 20000,\n"chunk_tokens": 4096}')
    assert EngineModel(prefill_tokens_per_s=20_000.0, chunk_tokens=4096) == read_engine(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"prefill_speed": 3}', "an engine has no `prefill_speed` (did you mean"),
        ('{"step_s": -1}', "`step_s` must be more than 0, and is -1"),
        ('{"step_s": "fast"}', "neither an engine's speeds nor a line of its log"),
        ("nonsense", "line 1: this is neither an engine's speeds nor a line of its log"),
        ("", "0 answers of more than one token are too few"),
    ],
)
def test_what_is_no_engine_is_refused_in_words(tmp_path: Path, content: str, words: str) -> None:
    """With the file, and the line or the field."""
    path = tmp_path / "engine.json"
    path.write_text(content)
    with pytest.raises(ConfigurationError) as refused:
        read_engine(path)
    assert str(path) in str(refused.value)
    assert words in str(refused.value)


def test_a_log_in_which_no_time_passes_teaches_nothing() -> None:
    """All requests in one moment: neither reading nor writing takes any time."""
    row = Timing(input_toks=10, output_toks=5, scheduled_ts=1.0, first_token_ts=1.0, last_token_ts=1.0)
    with pytest.raises(ConfigurationError, match="too few"):
        fitted([row] * 50, file="log")
