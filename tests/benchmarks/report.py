"""How long a report over a million requests takes on SQLite, and how much memory.

    python tests/benchmarks/report.py
    python tests/benchmarks/report.py --requests 100000 --by route,backend

A ledger as a gateway writes it: five requests a task, one in twenty with two attempts, nine tasks in ten judged. The
command `headrace report --json` is run on it in a process of its own, and its wall and CPU time are told.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from gateway.stores.database import open_database
from gateway.stores.migrations import SCHEMA_VERSION
from gateway.stores.rows import ATTEMPT_COLUMNS, REQUEST_COLUMNS
from gateway.stores.task_key import task_key
from gateway.stores.time_steps import step_of

OUT = Path(__file__).with_name("out")
FIRST_UNIX_S = 1_790_000_000.0
SECONDS_BETWEEN = 2.5
REQUESTS_OF_A_TASK = 5
_BATCH = 10_000


def main() -> None:
    """Fills a ledger, reports, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--by", action="append", help="what to break down by; may be given several times")
    parser.add_argument("--ledger", type=Path, help="keep the ledger here, and use it again")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = given.ledger or Path(folder) / "ledger.sqlite3"
        if not path.exists():
            fill(path, given.requests)
        results = [_timed(path, by) for by in given.by or ["", "route", "tenant,backend,model", "day,class"]]
    print(f"{'by':24} {'wall s':>8} {'CPU s':>8} {'MiB':>8}")
    for one in results:
        print(f"{one['by'] or '(total)':24} {one['wall_s']:8.2f} {one['cpu_s']:8.2f} {one['peak_mib']:8.0f}")
    OUT.mkdir(exist_ok=True)
    (OUT / "report.json").write_text(json.dumps({"requests": given.requests, "runs": results}, indent=2))


def fill(path: Path, requests: int) -> None:
    """A ledger of this version with so many requests."""
    draw = random.Random(8)  # noqa: S311  # made-up requests, the same in each run
    with closing(open_database(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        for first in range(0, requests, _BATCH):
            batch = [_request(seq, draw) for seq in range(first + 1, min(first + _BATCH, requests) + 1)]
            connection.execute("BEGIN")
            _insert(connection, "requests", ("seq", *REQUEST_COLUMNS), [request for request, _ in batch])
            attempts = [attempt for _, made in batch for attempt in made]
            _insert(connection, "attempts", ("request_seq", *ATTEMPT_COLUMNS), attempts)
            connection.execute("COMMIT")
        tasks = range(requests // REQUESTS_OF_A_TASK)
        outcomes = [
            (tenant, name, task_key(tenant, name), 0.0, 0.0, int(draw.random() < 0.7), 10**9, "")
            for tenant, name in ((f"tenant-{task % 8}", f"task-{task}") for task in tasks)
        ]
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO task_outcomes (tenant, task, task_key, at_unix_s, received_unix_s, success, "
            "tool_cost_pico_usd, note) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [outcome for outcome in outcomes if draw.random() < 0.9],
        )
        connection.execute("COMMIT")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _request(seq: int, draw: random.Random) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    task = seq // REQUESTS_OF_A_TASK
    tries = 2 if draw.random() < 0.05 else 1
    output_tokens, ttft_s = int(draw.lognormvariate(5, 1)) + 1, draw.lognormvariate(-1, 0.5)
    tpot_s = draw.lognormvariate(-4, 0.3)
    place = draw.randrange(6)
    common = {"prompt_tokens": draw.randrange(50, 4000), "cached_tokens": 0, "output_tokens": output_tokens}
    pico = (common["prompt_tokens"] * 15 + output_tokens * 60) * 10_000
    attempts = [
        {
            "request_seq": seq, "n": n, "backend": f"backend-{place}", "model": f"model-{place % 4}",
            "status": "ok" if n == tries else "upstream_failed", "error": "" if n == tries else "UpstreamFailed",
            "started_s": 0.0, "first_token_s": ttft_s, "ended_s": ttft_s + output_tokens * tpot_s, **common,
            "reasoning_tokens": 0, "estimated": 0, "cost_pico_usd": pico if n == tries else 0,
            "last_token_s": ttft_s + output_tokens * tpot_s, "bursts": output_tokens, "serves": int(n == tries),
        }
        for n in range(1, tries + 1)
    ]  # fmt: skip
    request = {
        "seq": seq, "id": f"req_{seq:024x}", "received_unix_s": FIRST_UNIX_S + seq * SECONDS_BETWEEN,
        "tenant": f"tenant-{task % 8}", "operation": "chat", "model": "chat", "route": f"route-{task % 5}",
        "status": "ok" if draw.random() < 0.98 else "truncated", "http_status": 200, "finish_reason": "stop",
        "error": "", "stream": 1, "forecast_prompt_tokens": common["prompt_tokens"],
        "forecast_output_tokens_p50": output_tokens, "forecast_output_tokens_p90": 2 * output_tokens, **common,
        "ttft_s": ttft_s, "duration_s": ttft_s + output_tokens * tpot_s, "cost_pico_usd": pico, "attempts": tries,
        "trace_id": f"{seq:032x}", "unverified_user": "", "task": f"task-{task}", "stage": "",
        "backend": f"backend-{place}", "backend_model": f"model-{place % 4}",
        "task_key": task_key(f"tenant-{task % 8}", f"task-{task}"), "ttft_step": step_of(ttft_s),
        "e2e_step": step_of(ttft_s + output_tokens * tpot_s), "tpot_step": step_of(tpot_s), "itl_step": step_of(tpot_s),
    }  # fmt: skip
    return request, attempts


def _insert(connection: Any, table: str, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    known = [column for column in columns if column in rows[0]]
    names, marks = ", ".join(known), ", ".join("?" * len(known))
    insert = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608  # our own names
    connection.executemany(insert, ([row[column] for column in known] for row in rows))


def _timed(path: Path, by: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "gateway", "report", "--ledger", str(path), "--format", "json"]
    before, begun_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([*command, "--by", by] if by else command, check=True, stdout=subprocess.DEVNULL)
    wall_s, after = time.perf_counter() - begun_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"by": by, "wall_s": wall_s, "cpu_s": cpu_s, "peak_mib": after.ru_maxrss / 1024}


if __name__ == "__main__":
    main()
