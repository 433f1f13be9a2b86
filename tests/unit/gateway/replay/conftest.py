"""Small traces and policies for replays."""

import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from gateway.replay.engine import Engine, Event, Job
from gateway.replay.engine_model import EngineModel
from gateway.replay.run import Conditions, Replay
from gateway.replay.scene import Stage
from gateway.replay.trace import TraceOptions, read_trace
from gateway.rules.policy_file import parse_policy

POLICY = """
    backends: {{local: {{use: fake, models: {{small: {{price: {{input_usd_per_mtok: 1, output_usd_per_mtok: 2}}}}}}}}}}
    routes: {{r: {{models: ["*"], targets: [local], rank: {rank}}}}}
"""


@pytest.fixture
def plain_model() -> EngineModel:
    """Reads 1,000 tokens a second in chunks of 100, writes ten a second, and nothing else costs anything."""
    return EngineModel(
        prefill_tokens_per_s=1000.0,
        attention_tokens=1e15,
        step_s=0.1,
        sequence_s=0.0,
        held_token_s=0.0,
        chunk_tokens=100,
        block_tokens=10,
    )


@pytest.fixture
def serve() -> Callable[..., list[Event]]:
    """Serves jobs in the order of their arrival, to the end; what happened, in its order."""

    def serve_(engine: Engine, jobs: Iterable[Job]) -> list[Event]:
        events: list[Event] = []
        for job in jobs:
            engine.advance(job.arrived_s, events)
            engine.submit(job)
        engine.advance(float("inf"), events)
        return sorted(events, key=lambda event: event[:3])

    return serve_


@pytest.fixture
def job() -> Callable[..., Job]:
    """A job; without ``blocks`` nothing of it can be cached."""

    def job_(index: int, arrived_s: float, prompt_tokens: int, output_tokens: int, blocks: Any = ()) -> Job:
        return Job(
            index, arrived_s=arrived_s, prompt_tokens=prompt_tokens, output_tokens=output_tokens, blocks=tuple(blocks)
        )

    return job_


@pytest.fixture
def trace_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows, or lines as they are."""

    def write(rows: Iterable[Any], name: str = "trace.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(row if isinstance(row, str) else f"{json.dumps(row)}\n" for row in rows))
        return path

    return write


@pytest.fixture
def chats(trace_file: Callable[..., Path]) -> Callable[..., Path]:
    """A trace of conversations that grow by a block with every turn."""

    def write(turns: int = 200, *, conversations: int = 20, every_ms: int = 150, seed: int = 5) -> Path:
        rng = random.Random(seed)  # noqa: S311  # the same every time
        history = {conversation: [0, 1000 + conversation] for conversation in range(conversations)}
        rows = []
        for turn in range(turns):
            blocks = history[rng.randrange(conversations)]
            blocks.append(10_000 + turn)
            tokens = len(blocks) * 512 - rng.randrange(300)
            rows.append(
                {
                    "timestamp": turn * every_ms,
                    "input_length": tokens,
                    "output_length": rng.randint(1, 200),
                    "hash_ids": list(blocks),
                }
            )
        return trace_file(rows)

    return write


@pytest.fixture
def stage() -> Callable[..., Stage]:
    """A policy with one backend, by its rank."""

    def make(rank: str = "by_cost", replicas: int | None = 4) -> Stage:
        return Stage(policy=parse_policy(POLICY.format(rank=rank), file="p"), file="p", replicas=replicas)

    return make


@pytest.fixture
def replayed(stage: Callable[..., Stage]) -> Callable[..., Replay]:
    """A replay of a trace, played to its end."""

    def play(path: Path, rank: str = "by_cost", *, replicas: int = 4, load: float = 1.0, **conditions: Any) -> Replay:
        replay = Replay(stage(rank, replicas), Conditions(**{"prediction": "median", **conditions}))
        replay.run(read_trace(path, TraceOptions(load=load)))
        return replay

    return play
