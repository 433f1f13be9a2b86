"""Kills a gateway again and again while it runs a batch, and counts what is lost, and what came twice.

    python tests/benchmarks/batch_kills.py               12 kills in 1,200 lines, a minute and a half
    python tests/benchmarks/batch_kills.py --seed 7      other moments

Each line must have one result, in its place; each result must name a request that is on the ledger, and no request may
be there twice. What was in flight at a kill is there as well, as left. Exits with 1 where one of these does not hold.
"""

import argparse
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
from programs import HOST, free_port, stop, wait_until_up

CHAT = "/v1/chat/completions"
POLICY = """
backends:
  a:
    use: fake
    first_token_s: 0.1
    concurrency: 8
    models: {m: {price: {input_usd_per_mtok: 1, output_usd_per_mtok: 1}}}
routes:
  r: {models: [m], targets: [a/m], admit: {use: fair_queue, limit: null}}
"""
_BODY = {"model": "m", "messages": [{"role": "user", "content": "Say a few words."}]}
_PATIENCE_S = 300.0


class Gateway:
    """One that is started again after each kill, over the same state."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "policy.yaml").write_text(POLICY)
        self.start()

    def start(self) -> None:
        """Starts it; returns when it is ready."""
        port = free_port()
        settings = {"STATE_DIR": str(self._folder), "PORT": str(port), "BATCH_LEASE_S": "0.6"}
        environment = {f"HEADRACE_{name}": value for name, value in settings.items()}
        command = [sys.executable, "-m", "gateway", "serve", str(self._folder / "policy.yaml")]
        self._process = subprocess.Popen(
            command, env={"PATH": os.environ["PATH"], **environment}, stderr=subprocess.DEVNULL
        )
        wait_until_up(self._process, port, "/readyz")
        self.client = httpx.Client(base_url=f"http://{HOST}:{port}", timeout=30)

    def kill(self) -> None:
        """Ends it without a word."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Ends it as an operator does."""
        stop(self._process)


@contextmanager
def running() -> Iterator[tuple[Gateway, Path]]:
    """A gateway, and where its state is."""
    with tempfile.TemporaryDirectory() as name:
        gateway = Gateway(Path(name))
        try:
            yield gateway, Path(name)
        finally:
            gateway.stop()


def hand_in(client: httpx.Client, count: int) -> str:
    """A batch of so many lines; its path."""
    each = {"method": "POST", "url": CHAT, "body": _BODY}
    content = b"\n".join(json.dumps({"custom_id": str(n), **each}).encode() for n in range(count))
    file = client.post("/v1/files", files={"file": ("in.jsonl", content)}, data={"purpose": "batch"}).json()["id"]
    asked = {"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"}
    return f"/v1/batches/{client.post('/v1/batches', json=asked).json()['id']}"


def run(count: int, kills: int) -> int:
    """How much does not hold."""
    with running() as (gateway, folder):
        batch, done = hand_in(gateway.client, count), 0
        while done < kills and gateway.client.get(batch).json()["status"] != "completed":
            time.sleep(random.uniform(0.3, 2.0))  # noqa: S311  # a moment, not a secret
            gateway.kill()
            gateway.start()
            done += 1
        until_s = time.monotonic() + _PATIENCE_S
        while (told := gateway.client.get(batch).json())["status"] != "completed" and time.monotonic() < until_s:
            time.sleep(0.2)
        output = gateway.client.get(f"/v1/files/{told['output_file_id']}/content").text.splitlines()
        gateway.stop()
        with closing(sqlite3.connect(folder / "ledger.sqlite3")) as ledger:
            rows = ledger.execute("SELECT id, status FROM requests").fetchall()
    results = [json.loads(line) for line in output]
    known = {name for name, _ in rows}
    wrong = {
        "lines without their one result": sum(
            a != b for a, b in zip([one["custom_id"] for one in results], map(str, range(count)), strict=False)
        )
        + abs(len(results) - count),
        "results whose request is not on the ledger": sum(
            one["response"]["request_id"] not in known for one in results
        ),
        "requests that are there twice": len(rows) - len(known),
    }
    print(f"{done} kills, {count} lines; requests: {dict(Counter(status for _, status in rows))}")
    print("\n".join(f"{what}: {number}" for what, number in wrong.items()))
    return sum(wrong.values())


def main() -> int:
    """Kills and counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--lines", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    random.seed(given.seed)
    return 1 if run(given.lines, given.kills) else 0


if __name__ == "__main__":
    sys.exit(main())
