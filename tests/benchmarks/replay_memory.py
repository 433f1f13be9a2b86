"""What a replay of a long trace takes: memory, which must not grow with it, and time.

    python tests/benchmarks/replay_memory.py                         10,000, 100,000 and 1,000,000 rows
    python tests/benchmarks/replay_memory.py 2000 20000

Each trace is written to a file and played by ``headrace replay`` in a process of its own; its peak memory is what the
system counted. Rows are short chats, fifty a second for 16 engines: what takes time is the replay's own work.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import short, table

_KIB_PER_MIB = 1024


def write_chats(path: Path, rows: int) -> None:
    """Chats of a few blocks, of which there are always a thousand that go on."""
    rng = random.Random(1)  # noqa: S311  # the same every time
    chats = [[0, chat + 1] for chat in range(1000)]
    fresh = 1000
    with path.open("w", encoding="utf-8") as file:
        for row in range(rows):
            place = rng.randrange(len(chats))
            fresh += 1
            chats[place] = [0, fresh] if len(chats[place]) > 6 else [*chats[place], fresh]
            blocks = chats[place]
            told = {"timestamp": row * 20, "input_length": len(blocks) * 512 - 100, "output_length": 1 + row % 90}
            file.write(json.dumps({**told, "hash_ids": blocks}) + "\n")


def measure(rows: int, folder: Path) -> tuple[float, float, float]:
    """Peak MiB, CPU seconds, and the mean time to the first token that was found."""
    path = folder / "trace.jsonl"
    write_chats(path, rows)
    command = [sys.executable, "-m", "gateway", "replay", "default", str(path), "--replicas", "16", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    told = json.loads(process.stdout.read())
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(process.returncode)
    return used.ru_maxrss / _KIB_PER_MIB, used.ru_utime + used.ru_stime, told["ttft_mean_s"]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for rows in parser.parse_args().rows:
            mebibytes, seconds, ttft_s = measure(rows, Path(folder))
            per_row = seconds * 1e6 / rows
            lines.append([f"{rows:,}", short(mebibytes), short(seconds), short(per_row), short(ttft_s)])
    print(table(["rows", "peak MiB", "CPU s", "CPU us a row", "mean TTFT s"], lines))


if __name__ == "__main__":
    main()
