import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.errors import ConfigurationError
from gateway.replay.figures import Sample, figures
from gateway.replay.run import Conditions, Objective, Replay
from gateway.replay.scene import Stage
from gateway.replay.trace import TraceOptions, read_trace
from gateway.rules.policy_file import parse_policy

Play = Callable[..., Replay]
RANKS = [
    "by_cost",
    "round_robin",
    "least_requests",
    "consistent_hash_bounded",
    "sglang_cache_aware",
    "epp_weighted",
    "dynamo_cost",
    "llmd_latency_affinity",
]


def _told(replay: Replay) -> dict[str, float | None]:
    return {name: figure.value for name, figure in figures(Sample(replay.tally.windows), seed=1).items()}


@pytest.mark.parametrize("rank", RANKS)
def test_every_request_ends_once_and_hits_no_more_than_it_has(
    chats: Callable[..., Path], replayed: Play, rank: str
) -> None:
    """Whoever chooses; and what the engines read and had is what the prompts were."""
    path = chats(200)
    replay = replayed(path, rank)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    windows = replay.tally.windows
    assert len(rows) == sum(window.ttft_s.count for window in windows) == sum(window.e2e_s.count for window in windows)
    prompts = sum(window.prompt_tokens for window in windows)
    assert sum(row["input_length"] for row in rows) == prompts
    assert sum(row["output_length"] for row in rows) == sum(window.output_tokens for window in windows)
    assert 0 < sum(window.cached_tokens for window in windows) < prompts
    assert all(engine.waiting == engine.running == engine.held_tokens == 0 for engine in replay.engines.values())


@pytest.mark.parametrize("gateways", [1, 3])
def test_the_same_seed_gives_the_same_replay(chats: Callable[..., Path], replayed: Play, gateways: int) -> None:
    """To the last digit; another seed sends requests through other gateways."""
    path = chats(150)
    once, again = (_told(replayed(path, gateways=gateways, seed=1)) for _ in range(2))
    assert once == again
    if gateways > 1:
        assert once != _told(replayed(path, gateways=gateways, seed=2))


def test_round_robin_is_what_it_says(chats: Callable[..., Path], replayed: Play) -> None:
    """Each engine gets its share of the requests, whatever they weigh."""
    replay = replayed(chats(80), "round_robin", replicas=4)
    assert 80 == sum(window.ttft_s.count for window in replay.tally.windows)
    assert len(replay.engines) == 4


def test_looking_at_caches_hits_more_than_taking_turns(chats: Callable[..., Path], replayed: Play) -> None:
    """The very reason to route."""
    path = chats(400)
    cost, turns = (_told(replayed(path, rank)) for rank in ("by_cost", "round_robin"))
    assert float(cost["hit_ratio"] or 0) > float(turns["hit_ratio"] or 0) + 0.1
    assert float(cost["ttft_mean_s"] or 0) < float(turns["ttft_mean_s"] or 0)


@given(seed=st.integers(0, 50), factor=st.floats(1.5, 4.0))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_more_load_never_helps(chats: Callable[..., Path], replayed: Play, seed: int, factor: float) -> None:
    """On one engine, where no choice can go the other way: the same requests, sooner after each other."""
    path = chats(60, every_ms=400, seed=seed)
    calm, busy = (_told(replayed(path, replicas=1, load=load))["ttft_mean_s"] for load in (1.0, factor))
    assert float(busy or 0) >= float(calm or 0) * 0.98


def test_gateways_that_share_see_the_load_of_the_others(chats: Callable[..., Path], replayed: Play) -> None:
    """Four of them choose nearly as well as one; four that know nothing of each other do not."""
    path = chats(600, conversations=60, every_ms=60)
    alone, sharing, apart = (
        float(_told(replayed(path, replicas=6, **options))["ttft_mean_s"] or 0)
        for options in ({}, {"gateways": 4, "share_s": 0.02}, {"gateways": 4, "share_s": None})
    )
    assert sharing < alone * 1.25
    assert sharing < apart


def test_an_answer_is_good_within_its_objective(chats: Callable[..., Path], replayed: Play) -> None:
    """The first token in time, and the others too."""
    path = chats(100)
    ratios = [
        _told(replayed(path, objective=Objective(ttft_s=ttft_s, tpot_s=tpot_s)))["good_ratio"]
        for ttft_s, tpot_s in ((1e9, 1e9), (0.1, 1e9), (1e9, 1e-6), (1e-6, 1e9))
    ]
    assert ratios[0] == 1.0
    assert 0.0 < float(ratios[1] or 0) < 1.0
    assert float(ratios[2] or 0) < 0.1  # answers of one token have no gaps
    assert ratios[3] == 0.0


def test_answers_cost_what_the_backend_charges(chats: Callable[..., Path], replayed: Play) -> None:
    """A dollar a million tokens read, two a million written."""
    path = chats(50)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    expected = sum(row["input_length"] + 2 * row["output_length"] for row in rows) / 1e6
    assert expected == pytest.approx(_told(replayed(path))["cost_usd"])


def test_warm_up_is_served_but_not_counted(chats: Callable[..., Path], replayed: Play) -> None:
    """Its prompts are in the caches all the same."""
    path = chats(100)
    assert 60 == sum(window.ttft_s.count for window in replayed(path, warm_up=40).tally.windows)


def test_a_policy_that_sends_a_request_nowhere_stops_the_replay(chats: Callable[..., Path]) -> None:
    """With the reason: figures of the others alone would flatter it."""
    text = 'backends: {a: {use: fake, models: {m: {context_tokens: 600}}}}\nroutes: {r: {models: ["*"], targets: [a]}}'
    stage = Stage(policy=parse_policy(text, file="p"), file="p", replicas=2)
    replay = Replay(stage, Conditions(prediction="median"))
    with pytest.raises(ConfigurationError, match=r"route `r` sends replay-\d+ nowhere \(a-1: needs about"):
        replay.run(read_trace(chats(50), TraceOptions()))


@pytest.mark.parametrize("prediction", ["policy", "median", "noisy", "oracle"])
def test_any_forecast_can_be_asked_for(chats: Callable[..., Path], replayed: Play, prediction: Any) -> None:
    """The true length only when it is asked for."""
    assert 40 == sum(window.ttft_s.count for window in replayed(chats(40), prediction=prediction).tally.windows)


def test_memory_does_not_grow_with_the_trace(trace_file: Callable[..., Path], stage: Callable[..., Stage]) -> None:
    """Neither rows, of 3,600 characters each, nor results, of 300 bytes each, are kept; sketches fill up, slower."""
    peaks_bytes = []
    few, many = 400, 1600
    for rows in (few, many):
        path = trace_file(
            {"timestamp": n * 100, "input_length": 900, "output_length": 20, "hash_ids": [n % 20, 100 + n % 20]}
            for n in range(rows)
        )
        replay = Replay(stage(replicas=2), Conditions(prediction="median"))
        tracemalloc.start()
        replay.run(read_trace(path, TraceOptions()))
        peaks_bytes.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks_bytes[1] - peaks_bytes[0] < 150 * (many - few)
