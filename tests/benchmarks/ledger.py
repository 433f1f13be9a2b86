"""What the ledger costs: CPU on the request path an entry, and how many entries a second it writes for long.

    python tests/benchmarks/ledger.py --rate 2000 --seconds 20
    python tests/benchmarks/ledger.py --store postgres

The path is the event loop's thread: learning apart, all that a request's end does there until its rows outlive the
process. The writer's thread is measured as the rest of the process. Entries are those of a chat over eight candidates
with a decision, a prompt of 24 chunks and one attempt. A bare loop of the same rows into SQLite, in one transaction a
thousand, is the bound.
"""

import argparse
import asyncio
import json
import secrets
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gateway.forecast import Forecast
from gateway.ledger.ledger import EntryLedger
from gateway.price import Price, Usage
from gateway.stores.database import open_database
from gateway.stores.row_statements import inserts_of
from gateway.stores.rows import ATTEMPT_COLUMNS, REQUEST_COLUMNS, rows_of
from gateway.stores.sql import SqlLedger
from gateway.types import (
    Arrival,
    Attempt,
    Bill,
    Candidate,
    ChatRequest,
    Context,
    Decision,
    LedgerEntry,
    Operation,
    Outcome,
    Status,
    TraceContext,
)
from gateway.worth import Worth

OUT = Path(__file__).parent / "out" / "ledger.json"
_PRICE = Price(input_usd_per_mtok=Decimal("0.59"), output_usd_per_mtok=Decimal("0.79"))
_CHUNKS = ([secrets.token_bytes(16) for _ in range(24)], [2048 * n for n in range(1, 25)])


def main() -> None:
    """Measures, prints a table and writes ``out/ledger.json``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--rate", type=float, default=2000.0, help="entries a second")
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-ledger-")))
        place = folder / "ledger.sqlite3" if arguments.store == "sqlite" else _server(stack)
        found = asyncio.run(_measure(place, folder, arguments.rate, arguments.seconds))
        found |= {"store": arguments.store, "bound_us_an_entry": round(_bound_us(folder), 1)}
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(found, indent=2) + "\n")
    for name, value in found.items():
        print(f"{name:32} {value}")


async def _measure(place: Path | str, folder: Path, rate: float, seconds: float) -> dict[str, Any]:
    rows = SqlLedger(place, spool=folder / "spool")
    rows.start()
    ledger = EntryLedger([], [rows])
    ledger.start()
    entries = [_entry(number) for number in range(512)]
    begun_s, path_s, process_s, most_waiting, sent = time.monotonic(), 0.0, time.process_time(), 0, 0
    made_s = 0.0
    while (elapsed_s := time.monotonic() - begun_s) < seconds:
        due = int(elapsed_s * rate) - sent
        if due <= 0:
            await asyncio.sleep(0.001)
            continue
        thread_s = time.thread_time()
        for _ in range(min(due, 8)):  # as many requests as end in one turn of a busy loop
            ledger.record(entries[sent % 512])
            sent += 1
        await asyncio.sleep(0)
        path_s += time.thread_time() - thread_s
        most_waiting = max(most_waiting, rows.waiting)
    made_s = time.monotonic() - begun_s
    assert await rows.flush(60)
    drained_s = time.monotonic() - begun_s - made_s
    process_s = time.process_time() - process_s
    await ledger.close()
    count = await rows.count()
    assert count == sent, (count, sent)
    return {
        "path_alone_us_an_entry": await _path_alone_us(folder),
        "entries": sent,
        "entries_a_second": round(sent / made_s),
        "path_us_an_entry": round(path_s / sent * 1e6, 1),
        "process_us_an_entry": round(process_s / sent * 1e6, 1),
        "most_waiting": most_waiting,
        "drained_s": round(drained_s, 2),
        "dropped": rows.dropped,
    }


async def _path_alone_us(folder: Path) -> float:
    """The path while the writer waits for more rows: between two batches, without another thread in its caches."""
    rows = SqlLedger(folder / "alone.sqlite3", spool=folder / "alone")
    rows.start()
    ledger = EntryLedger([], [rows])
    ledger.start()
    entries, found = [_entry(number) for number in range(512)], []
    for _ in range(20):
        thread_s = time.thread_time()
        for number in range(0, 512, 8):
            for entry in entries[number : number + 8]:
                ledger.record(entry)
            await asyncio.sleep(0)
        found.append((time.thread_time() - thread_s) / 512)
        assert await rows.flush(60)
    await ledger.close()
    return round(sorted(found)[len(found) // 2] * 1e6, 1)


def _bound_us(folder: Path) -> float:
    """CPU of the bare inserts, an entry."""
    made = [rows_of(_entry(number)) for number in range(1000)]
    connection: sqlite3.Connection = open_database(folder / "bound.sqlite3")
    inserts = inserts_of(REQUEST_COLUMNS, ATTEMPT_COLUMNS)
    requests = [rows.request_row() for rows in made]
    begun_s = time.process_time()
    for batch in range(5):
        connection.execute("BEGIN")
        first = batch * 1000 + 1
        connection.executemany(inserts.request, [(first + n, *row) for n, row in enumerate(requests)])
        connection.executemany(
            inserts.attempt, [row for n, rows in enumerate(made) for row in rows.attempt_rows(first + n)]
        )
        connection.execute("COMMIT")
    connection.close()
    return (time.process_time() - begun_s) / 5000 * 1e6


def _server(stack: ExitStack) -> str:
    from tests.postgres_servers import running_server

    return stack.enter_context(running_server()).new_database()


def _entry(number: int) -> LedgerEntry:
    arrival = Arrival(
        id=f"req-{number}-{secrets.token_hex(8)}",
        operation=Operation.CHAT,
        tenant="acme",
        received_s=100.0,
        received_unix_s=1_700_000_000.0 + number,
        trace=TraceContext(trace_id=secrets.token_hex(16), span_id=secrets.token_hex(8)),
    )
    request = ChatRequest(arrival=arrival, model="fast", stream=True, prompt_bytes=48_000)
    forecast = Forecast(prompt_tokens=12_000, output_tokens_p50=200, output_tokens_p90=700)
    ctx = Context(request=request, forecast=forecast, worth=Worth(usd_per_second=0.001, usd_per_success=0.01))
    attempt = Attempt(
        backend="replica-1",
        model="llama",
        status=Status.OK,
        started_s=100.01,
        first_token_s=100.5,
        ended_s=103.0,
        span_id=secrets.token_hex(8),
        usage=Usage(prompt_tokens=12_000, output_tokens=210, cached_tokens=8_000),
        cost_usd=Decimal("0.0072459"),
        cost_source="policy",
    )
    return LedgerEntry(
        arrival=arrival,
        request=request,
        route="chat",
        forecast=forecast,
        decision=Decision(order=tuple(_bills()), ctx=ctx),
        attempts=(attempt,),
        outcome=Outcome(status=Status.OK, http_status=200, finish_reason="stop"),
        ended_s=103.0,
        chunks=_CHUNKS,
    )


def _bills() -> Iterator[Bill]:
    for number in range(8):
        candidate = Candidate(
            backend=f"replica-{number}",
            model="llama",
            operations=frozenset({Operation.CHAT}),
            capabilities=None,
            carries=None,
            context_tokens=131_072,
            price=_PRICE,
            in_flight=number,
            concurrency=8,
            queued_prefill_tokens=number * 1000,
            running_output_tokens=number * 100,
            warm_tokens=number * 500,
            prefill_tokens_per_s=9000.5,
            seconds_per_token=0.0121,
            failure_rate=0.01,
        )
        terms = (("money", 0.007), ("waiting", 0.0001 * number), ("prefill", 0.001), ("decoding", 0.003))
        yield Bill(candidate=candidate, terms=terms, total_usd=0.011 + 0.0001 * number)


if __name__ == "__main__":
    main()
