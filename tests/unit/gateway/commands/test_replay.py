import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROWS = [
    {
        "timestamp": n * 200,
        "input_length": 512 * (2 + n % 5),
        "output_length": 5 + n % 20,
        "hash_ids": [0, *(100 * (n % 7) + k for k in range(1, 2 + n % 5))],
    }
    for n in range(120)
]
PRICED = """
    backends: {own: {use: fake, models: {m: {price: {input_usd_per_mtok: 1, output_usd_per_mtok: 4}}}}}
    routes: {r: {models: ["*"], targets: [own], rank: round_robin}}
"""
PLAIN = ("policy", "trace", "requests", "replicas", "blocks", "load", "gateways", "share_ms", "seed")
RESAMPLED = (
    *("ttft_mean_s", "ttft_p50_s", "ttft_p95_s", "ttft_p99_s", "e2e_mean_s", "e2e_p95_s", "tpot_mean_s", "tpot_p95_s"),
    *("hit_ratio", "good_ratio", "goodput_per_s", "output_tokens_per_s"),
)
VALUES = (*RESAMPLED, "imbalance", "imbalance_tokens", "cost_usd", "cost_per_success_usd")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A hundred and twenty requests, five a second."""
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return path


@pytest.fixture
def priced(tmp_path: Path) -> Path:
    """A policy whose backend has a price."""
    path = tmp_path / "priced.yaml"
    path.write_text(PRICED)
    return path


def _edges(names: tuple[str, ...]) -> set[str]:
    return {f"{name}_{edge}" for name in names for edge in ("low", "high")}


def test_json_has_flat_keys_that_stay(run: Any, trace: Path, priced: Path) -> None:
    """Programs read them: none may go, and none may change its meaning."""
    code, out, err = run("replay", priced, trace, "--replicas", 4, "--json")
    told = json.loads(out)
    priced_edges = _edges(("cost_usd", "cost_per_success_usd"))
    expected = {*PLAIN, *VALUES, *_edges(RESAMPLED), *priced_edges, "decide_us_p50", "decide_us_p99"}
    assert (0, "", expected) == (code, err, set(told))
    assert (108, 4, 5000, 1.0, 1, 50.0, 1) == tuple(told[key] for key in PLAIN[2:])
    assert all(told[f"{key}_low"] <= told[key] <= told[f"{key}_high"] for key in ("ttft_mean_s", "hit_ratio"))
    assert told["cost_per_success_usd"] >= told["cost_usd"] / 108 > 0


def test_a_preset_is_known_by_its_name(run: Any, trace: Path) -> None:
    """What runs by default, and the published rules; figures with their intervals, as a table."""
    code, out, _ = run("replay", "default", trace)
    lines = out.splitlines()
    assert (0, "default") == (code, lines[0].strip())
    assert [*VALUES] == [line.split()[0] for line in lines[1:]]
    assert " to " in lines[1]


def test_two_policies_are_compared_on_the_same_requests(run: Any, trace: Path) -> None:
    """Side by side, and by their difference."""
    code, out, _ = run("replay", "default", trace, "--against", "round_robin")
    assert (0, ["default", "round_robin", "difference"]) == (code, out.splitlines()[0].split())
    _, out, _ = run("replay", "default", trace, "--against", "round_robin", "--json")
    told = json.loads(out)
    assert "round_robin" == told["against"]
    assert told["difference_hit_ratio"] == pytest.approx(told["hit_ratio"] - told["against_hit_ratio"])
    assert told["difference_hit_ratio_low"] > 0


def test_a_policy_against_itself_differs_in_nothing(run: Any, trace: Path) -> None:
    """The differences are paired: they have no noise of their own."""
    _, out, _ = run("replay", "default", trace, "--against", "default", "--json")
    told = json.loads(out)
    assert all(value == 0 for key, value in told.items() if key.startswith("difference_"))


@pytest.mark.parametrize(
    ("bounds", "code", "broken"),
    [
        (["ttft_mean_s<=100", "hit_ratio>=0"], 0, []),
        (["ttft_mean_s<=100", "hit_ratio>=0.999"], 3, ["broken: hit_ratio >= 0.999, and it is 0."]),
        (["ttft_mean_s<0", "imbalance<1"], 3, ["broken: ttft_mean_s < 0", "broken: imbalance < 1, and it is "]),
    ],
)
def test_a_broken_bound_fails_the_command(
    run: Any, trace: Path, bounds: list[str], code: int, broken: list[str]
) -> None:
    """With a code of its own, 3, so that a check can tell it from a mistake; each broken one is said."""
    options = [part for bound in bounds for part in ("--bound", bound)]
    actual, out, err = run("replay", "default", trace, *options, "--json")
    assert code == actual
    assert json.loads(out)["requests"] == 108
    assert len(broken) == len(err.splitlines())
    assert all(line.startswith(start) for line, start in zip(err.splitlines(), broken, strict=True))


def test_what_has_no_price_has_no_cost(run: Any, trace: Path, tmp_path: Path) -> None:
    """It is unknown, not nothing: a bound on it is broken, unless engines are paid by the hour."""
    path = tmp_path / "unpriced.yaml"
    path.write_text('backends: {a: {use: fake}}\nroutes: {r: {models: ["*"], targets: [a]}}')
    code, out, err = run("replay", path, trace, "--bound", "cost_usd<=1", "--json")
    assert (3, None, "broken: cost_usd <= 1, and it is unknown\n") == (code, json.loads(out)["cost_usd"], err)
    _, out, _ = run("replay", path, trace, "--replicas", 2, "--usd-per-hour", 3600, "--json", "--warm-up", 0)
    assert 2 * 119 * 0.2 == pytest.approx(json.loads(out)["cost_usd"])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("defualt", "TRACE"), 1, "defualt: this is neither a file nor a preset (did you mean `default`?"),
        (("none.yaml", "TRACE"), 1, "none.yaml: cannot be read: No such file or directory"),
        (("default", "none.jsonl"), 1, "none.jsonl: cannot be read: No such file or directory"),
        (
            ("default", "TRACE", "--bound", "ttft_p95<=3"),
            1,
            "there is no figure `ttft_p95` (did you mean `ttft_p95_s`?",
        ),
        (("default", "TRACE", "--engine", "none.json"), 1, "none.json: cannot be read"),
        (("default", "TRACE", "--engine", "nobody=ENGINE"), 1, "no engine stands in for `nobody` (known: `local-1`"),
        (("default", "TRACE", "--route", "nowhere"), 1, "there is no route `nowhere` (routes are default)"),
        (("default", "TRACE", "--replicas", "0"), 2, "argument --replicas: must be from 1 to 1,024, and is 0"),
        (("default", "TRACE", "--load", "0"), 2, "argument --load: must be more than 0, and is 0"),
        (("default", "TRACE", "--load", "fast"), 2, "argument --load: invalid"),
        (("default", "TRACE", "--warm-up", "1"), 2, "argument --warm-up: must be from 0 to below 1, and is 1"),
        (("default", "TRACE", "--share-ms", "-1"), 2, "argument --share-ms: must be at least 0, and is -1"),
        (("default", "TRACE", "--predict", "magic"), 2, "argument --predict: invalid choice: 'magic'"),
    ],
)
def test_a_mistake_is_one_sentence(
    run: Any, trace: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    """With a way out, and never a traceback."""
    engine = tmp_path / "engine.json"
    engine.write_text("{}")
    placed = [text.replace("TRACE", str(trace)).replace("ENGINE", str(engine)) for text in arguments]
    actual, out, err = run("replay", *placed)
    assert (code, "") == (actual, out)
    assert words in err
    assert "Traceback" not in err


def test_a_bad_row_and_an_empty_trace_are_named(run: Any, tmp_path: Path) -> None:
    """By their file and line."""
    path = tmp_path / "bad.jsonl"
    path.write_text(f"{json.dumps(ROWS[0])}\n{{}}\n")
    code, _, err = run("replay", "default", path)
    assert (1, True) == (code, err.startswith(f"headrace: {path}: line 2: this is no row of a trace"))
    path.write_text("")
    code, _, err = run("replay", "default", path)
    assert (1, f"headrace: {path}: the trace has no rows\n") == (code, err)


def test_a_slower_engine_makes_first_tokens_later(run: Any, trace: Path, tmp_path: Path) -> None:
    """For all, or for one backend by its name."""
    slow = tmp_path / "slow.json"
    slow.write_text('{"prefill_tokens_per_s": 2000}')
    usual, all_slow, one_slow = (
        json.loads(run("replay", "round_robin", trace, "--json", *options)[1])["ttft_mean_s"]
        for options in ((), ("--engine", slow), ("--engine", f"replica-1={slow}"))
    )
    assert usual < one_slow < all_slow


def test_a_chart_is_drawn(run: Any, trace: Path, tmp_path: Path) -> None:
    """As a PNG, where the library for it is there."""
    pytest.importorskip("matplotlib", reason="the extra `charts` is not installed")
    path = tmp_path / "chart.png"
    code, _, _ = run("replay", "default", trace, "--against", "round_robin", "--chart", path)
    assert (0, b"\x89PNG") == (code, path.read_bytes()[:4])
    code, _, err = run("replay", "default", trace, "--chart", tmp_path / "chart.nonsense")
    assert (1, True) == (code, "the chart cannot be written" in err)


def test_without_its_library_a_chart_says_what_to_install(
    run: Any, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is replayed."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, out, err = run("replay", "default", trace, "--chart", tmp_path / "chart.png")
    assert (1, "") == (code, out)
    assert "matplotlib, which draws the chart, is not installed (pip install 'headrace[charts]')" in err


def test_gateways_that_never_share_are_an_option(run: Any, trace: Path) -> None:
    """To see what the sharing is worth."""
    _, out, _ = run("replay", "default", trace, "--gateways", 3, "--share-ms", "never", "--json")
    assert (3, None) == (json.loads(out)["gateways"], json.loads(out)["share_ms"])
