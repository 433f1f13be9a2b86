"""A decision out of the ledger, made anew."""

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.commands.offline import read_world
from gateway.decide import decide
from gateway.fleet.fleet import Fleet
from gateway.ledger.redaction import without_words
from gateway.stores.ledger_place import LEDGER_FILE
from gateway.stores.memory import MemoryShared
from gateway.stores.sql import SqlLedger
from gateway.types import Exclusion, LedgerEntry


@pytest.fixture
def ledger_file(
    tmp_path: Path, policy_file: Path, make_context: Any, make_request: Any, make_entry: Any, clock: Any
) -> Path:
    """A ledger with a request that was decided on while one backend was busy, and one that never was."""
    _, world = read_world(policy_file)
    route = world.match("small")
    ctx = make_context(make_request("words", request_id="req-7", model="small"), prompt_tokens=100)
    fleet = Fleet(clock=clock, shared=MemoryShared(clock))
    snapshot = [
        replace(candidate, seconds_per_token=5.0) if candidate.backend == "cheap" else candidate
        for candidate in fleet.snapshot(route, ctx, world.backends)
    ]
    decision = decide(route, ctx, tuple(snapshot))
    assert [bill.candidate.backend for bill in decision.order] == ["dear", "cheap"]
    entry = make_entry(arrival=ctx.request.arrival, request=ctx.request, route="main", decision=decision)
    _keep(tmp_path / LEDGER_FILE, [without_words(entry), make_entry(8)])
    return tmp_path / LEDGER_FILE


def _keep(path: Path, entries: list[LedgerEntry]) -> None:
    ledger = SqlLedger(path)
    ledger.start()
    ledger.take(entries)
    asyncio.run(ledger.close())


def test_the_decision_comes_out_again(run: Any, policy_file: Path, ledger_file: Path) -> None:
    """With the facts of that moment: today, nobody is busy, and the cheap one would be chosen."""
    code, out, err = run("explain", policy_file, "--entry", "req-7", "--ledger", ledger_file)
    lines = out.splitlines()
    assert (0, "", "route      main") == (code, err, lines[0])
    assert ["1. dear/small", "2. cheap/small"] == [line for line in lines if line[:2] in {"1.", "2."}]
    assert ["choice     dear/small", "ledger     the same bills and the same choice"] == lines[-2:]
    told = json.loads(run("explain", policy_file, "--entry", "req-7", "--ledger", ledger_file, "--json")[1])
    assert ("dear", "dear", True) == (told["choice"], told["kept_choice"], told["reproduced"])


def test_the_ledger_of_the_state_directory_is_the_usual_one(
    run: Any, policy_file: Path, ledger_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the gateway that runs here."""
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(ledger_file.parent))
    assert 0 == run("explain", policy_file, "--entry", "req-7")[0]


def test_another_policy_is_told_apart(run: Any, policy_file: Path, ledger_file: Path) -> None:
    """What it would do today, and what was done then; the exit code says that they differ."""
    policy_file.write_text(policy_file.read_text().replace("cost: [money, decoding]", "cost: [money]"))
    code, out, _ = run("explain", policy_file, "--entry", "req-7", "--ledger", ledger_file)
    assert (1, "choice     cheap/small") == (code, out.splitlines()[-2])
    assert out.splitlines()[-1].startswith("ledger     dear/small then")
    told = json.loads(run("explain", policy_file, "--entry", "req-7", "--ledger", ledger_file, "--json")[1])
    assert ("cheap", "dear", False) == (told["choice"], told["kept_choice"], told["reproduced"])


def test_a_target_that_is_gone_is_no_choice(run: Any, policy_file: Path, ledger_file: Path) -> None:
    """A policy is not said to do what it cannot do any more."""
    text = policy_file.read_text()
    policy_file.write_text(text.replace("[cheap/small, dear/small]", "[cheap/small]"))
    assert text != policy_file.read_text()
    code, out, _ = run("explain", policy_file, "--entry", "req-7", "--ledger", ledger_file)
    assert (1, "choice     cheap/small") == (code, out.splitlines()[-2])
    assert "dear/small then" in out.splitlines()[-1]


@pytest.mark.parametrize(
    ("prepare", "entry", "words"),
    [
        (lambda _policy, _ledger: None, "req-9", "there is no request `req-9`"),
        (lambda _policy, _ledger: None, "req-8", "nothing is kept of a decision on `req-8` (it was refused before"),
        (
            lambda policy, _ledger: policy.write_text(policy.read_text().replace("main:", "other:")),
            "req-7",
            "the request went over route `main`, which is not here (routes are other)",
        ),
        (lambda _policy, ledger: ledger.unlink(), "req-7", "there is no ledger"),
        (lambda _policy, ledger: ledger.write_text("nonsense" * 100), "req-7", "the ledger cannot be read"),
        (lambda _policy, ledger: _change(ledger, "PRAGMA user_version = 1"), "req-7", "brings an older one up to date"),
        (
            lambda _policy, ledger: _change(ledger, "UPDATE requests SET decision = x'00'"),
            "req-7",
            "the facts of this decision cannot be read",
        ),
    ],
)
def test_what_cannot_be_explained_is_one_sentence(
    run: Any, policy_file: Path, ledger_file: Path, prepare: Callable[[Path, Path], object], entry: str, words: str
) -> None:
    """With the file, and a way out where there is one."""
    prepare(policy_file, ledger_file)
    code, out, err = run("explain", policy_file, "--entry", entry, "--ledger", ledger_file)
    assert (1, "", 1) == (code, out, err.count("\n"))
    assert words in err


def _change(ledger: Path, statement: str) -> None:
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        connection.execute(statement)


def test_a_request_or_an_entry_is_asked_for_and_not_both(run: Any, policy_file: Path, ledger_file: Path) -> None:
    """Wrong usage."""
    assert 2 == run("explain", policy_file)[0]
    assert 2 == run("explain", policy_file, "-", "--entry", "req-7", "--ledger", ledger_file)[0]


def test_a_request_that_spilled_over_says_why_nobody_at_home_was_asked(
    run: Any, tmp_path: Path, make_context: Any, make_request: Any, make_entry: Any, make_candidate: Any, clock: Any
) -> None:
    """And would spill over to the same backend again."""
    policy = tmp_path / "spilling.yaml"
    policy.write_text("""
        backends: {home: {use: fake, models: [small]}, paid: {use: fake, models: [small]}}
        routes: {main: {models: [small], targets: [home/small], spill: {to: paid/small, usd: 5, per: hour}}}
    """)
    _, world = read_world(policy)
    route = world.match("small").spill.route
    ctx = make_context(make_request("words", request_id="req-9", model="small"))
    fleet = Fleet(clock=clock, shared=MemoryShared(clock))
    decision = decide(route, ctx, fleet.snapshot(route, ctx, world.backends))
    home = Exclusion(candidate=make_candidate(backend="home"), filter="spill", reason="it would wait 9.0 s")
    entry = make_entry(
        arrival=ctx.request.arrival, request=ctx.request, route="main", decision=replace(decision, excluded=(home,))
    )
    _keep(tmp_path / LEDGER_FILE, [without_words(entry)])
    code, out, _ = run("explain", policy, "--entry", "req-9", "--ledger", tmp_path / LEDGER_FILE)
    assert 0 == code
    assert "x  home/small\n   spill: it would wait 9.0 s" in out
    assert ["choice     paid/small", "ledger     the same bills and the same choice"] == out.splitlines()[-2:]


def test_where_a_route_spills_to_is_told(run: Any, tmp_path: Path) -> None:
    """With what it may cost."""
    policy, request = tmp_path / "spilling.yaml", tmp_path / "request.json"
    policy.write_text("""
        backends: {home: {use: fake, models: [small]}, paid: {use: fake, models: [small]}}
        routes: {main: {models: [small], targets: [home/small], spill: {to: paid/small, usd: 5, per: hour}}}
    """)
    request.write_text('{"model": "small", "messages": [{"role": "user", "content": "hi"}]}')
    _, out, _ = run("explain", policy, request)
    where = "to paid/small where it would wait more than 2 s or be late"
    assert f"spill      {where}; the limit of spill `main` is $5.0000 per hour" == out.splitlines()[-1]
    assert "no route uses it" not in run("check", policy)[1]
