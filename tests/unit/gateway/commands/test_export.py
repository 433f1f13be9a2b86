import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.fleet.prompt_chain import SessionChains
from gateway.ledger.redaction import without_words
from gateway.price import Usage
from gateway.stores.ledger_place import LEDGER_FILE
from gateway.stores.sql import SqlLedger
from gateway.types import Outcome, Status

WORDS = "All requests begin with these words. " * 150


@pytest.fixture
def ledger_file(tmp_path: Path, make_request: Any, make_entry: Any, make_attempt: Any) -> Path:
    """Forty requests, half a second apart, that begin alike; one that failed, and one that was tried twice."""
    chains, entries = SessionChains(), []
    for n in range(40):
        request = make_request(f"{WORDS} Question {n}? " + "And why? " * 300, request_id=f"req-{n}", model="fast")
        arrival = replace(request.arrival, received_unix_s=1_700_000_000.0 + n / 2)
        chain = chains.chain(request)
        usage = Usage(prompt_tokens=1900, output_tokens=10 + n, cached_tokens=0)
        entry = make_entry(
            arrival=arrival,
            request=request,
            attempts=(make_attempt(usage=usage),),
            chunks=(chain.digests, chain.ends_bytes),
        )
        entries.append(without_words(entry))
    entries.append(make_entry(50, outcome=Outcome(status=Status.UPSTREAM_FAILED, http_status=502)))
    entries.append(make_entry(51, attempts=(make_attempt(), make_attempt())))
    ledger = SqlLedger(tmp_path / LEDGER_FILE)
    ledger.start()
    ledger.take(list(reversed(entries)))  # in the order in which they ended
    asyncio.run(ledger.close())
    return tmp_path / LEDGER_FILE


def test_what_was_served_becomes_a_trace_in_the_order_of_arrival(run: Any, ledger_file: Path) -> None:
    """With what the backend counted, and which prompts began alike; none of their words."""
    code, out, err = run("export", "--ledger", ledger_file)
    rows = [json.loads(line) for line in out.splitlines()]
    assert (0, "", 40) == (code, err, len(rows))
    assert [1_700_000_000_000 + n * 500 for n in range(40)] == [row["timestamp"] for row in rows]
    assert (1900, 10, "fast", "acme", "default", 0.5, 0.00012) == tuple(
        rows[0][key] for key in ("input_length", "output_length", "model", "tenant", "route", "ttft_s", "cost_usd")
    )
    heads = {tuple(row["hash_ids"][: len(WORDS) // 2048]) for row in rows}
    tails = {row["hash_ids"][-1] for row in rows}
    assert (1, 40) == (len(heads), len(tails))
    assert all(len(row["hash_ids"]) <= 4 for row in rows)
    assert "words" not in out


def test_the_trace_can_be_replayed(run: Any, ledger_file: Path, tmp_path: Path) -> None:
    """What a policy would have done with last week's traffic."""
    path = tmp_path / "trace.jsonl"
    path.write_text(run("export", "--ledger", ledger_file)[1])
    code, out, _ = run("replay", "default", path, "--replicas", 2, "--json", "--warm-up", 0)
    told = json.loads(out)
    assert (0, 40) == (code, told["requests"])
    assert told["hit_ratio"] > 0.3


def test_an_export_may_begin_at_a_moment(run: Any, ledger_file: Path) -> None:
    """In UTC, unless the zone is said."""
    for moment in ("2023-11-14T22:13:30", "2023-11-14T23:13:30+01:00"):
        assert 20 == len(run("export", "--ledger", ledger_file, "--since", moment)[1].splitlines())
    code, out, err = run("export", "--ledger", ledger_file, "--since", "2024-01-01")
    assert (1, "", True) == (code, out, "no request was served" in err)
    code, _, err = run("export", "--ledger", ledger_file, "--since", "yesterday")
    assert (2, True) == (code, "must be a day or a moment" in err)


def test_a_ledger_that_is_not_there_is_named(run: Any, tmp_path: Path) -> None:
    """And none is made."""
    path = tmp_path / "none.sqlite3"
    code, _, err = run("export", "--ledger", path)
    assert (1, False, True) == (code, path.exists(), f"{path}: there is no ledger" in err)


def test_an_export_as_parquet_says_the_same_and_can_be_replayed(run: Any, ledger_file: Path, tmp_path: Path) -> None:
    """In a fraction of the size."""
    as_json, as_parquet = tmp_path / "trace.jsonl", tmp_path / "trace.parquet"
    as_json.write_text(run("export", "--ledger", ledger_file)[1])
    code, out, err = run("export", "--ledger", ledger_file, "--parquet", as_parquet)
    assert (0, "", "") == (code, out, err)
    told = [
        json.loads(run("replay", "default", path, "--replicas", 2, "--json", "--warm-up", 0)[1])
        for path in (as_json, as_parquet)
    ]
    expected, found = ({name: one[name] for name in ("requests", "hit_ratio", "ttft_mean_s")} for one in told)
    assert expected == found
    assert 40 == found["requests"]


def test_a_damaged_parquet_file_is_told(run: Any, tmp_path: Path) -> None:
    """With its name."""
    path = tmp_path / "trace.parquet"
    path.write_bytes(b"PAR1 and nothing else")
    code, _, err = run("replay", "default", path)
    assert (1, True) == (code, f"{path}: this is no Parquet file that can be read" in err)
