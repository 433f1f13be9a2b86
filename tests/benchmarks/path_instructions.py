"""How many instructions the gateway's own code takes for a request, whatever else the machine does meanwhile.

    python tests/benchmarks/path_instructions.py                 all scripts of request_path.py, some minutes
    python tests/benchmarks/path_instructions.py a16 c16

The path of ``request_path.py`` under valgrind, which must be on PATH, twice: what the run with more requests takes
beyond the other, by how many more they were. The same code gives the same figure to half a per cent, so that two
states of it can be told apart where times cannot. What goes by the clock is left out: 25 answers a second are learned
from, which is some 0.2 ms each.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import uvloop
from figures import table
from path_scripts import SCRIPTS, Script
from request_path import open_path

from policies.classify import _lesson_pace

_FEW, _MANY = 200, 1200
_COUNTED = re.compile(r"I\s+refs:\s+([\d,]+)")


def counted(*script: str) -> int:
    """Instructions of a whole run of a Python script."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise SystemExit("valgrind is needed")
    tool = (valgrind, "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
    # The order in which sets are walked is part of the path.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    command = (*tool, sys.executable, *script)
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stderr
    found = _COUNTED.search(said)
    if found is None:
        raise RuntimeError(f"valgrind counted nothing: {said[-500:]}")
    return int(found[1].replace(",", ""))


def a_request(*script: str) -> float:
    """Instructions that a script takes for a request; its last argument, appended here, is how many it serves."""
    few, many = (counted(*script, str(requests)) for requests in (_FEW, _MANY))
    return (many - few) / (_MANY - _FEW)


async def serve(script: Script, classify: str, requests: int) -> None:
    """The run that is counted, to the last row on the ledger: how much of it waits in a batch is chance."""
    _lesson_pace.LESSONS_PER_S = 0.0  # they go by the clock, and so by what else the machine does
    with tempfile.TemporaryDirectory() as folder:
        gateway, load, clients = await open_path(Path(folder), script, classify)
        await load.run(clients, requests)
        await gateway.close()
        shutil.rmtree(folder)
        os._exit(0)


def main() -> int:
    """Counts and prints."""
    parser = argparse.ArgumentParser(description="Instructions of the gateway's own code for a request.")
    parser.add_argument("scripts", nargs="*", default=list(SCRIPTS), help=f"some of {', '.join(SCRIPTS)}")
    parser.add_argument("--classify", default="learned_length", help="how lengths are forecast")
    parser.add_argument("--bare", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        uvloop.run(serve(SCRIPTS[options.scripts[0]], options.classify, options.bare))
    rows = []
    for key in options.scripts:
        taken = a_request(__file__, key, "--classify", options.classify, "--bare")
        rows.append([f"{key}: {SCRIPTS[key].title}", f"{taken / 1000:,.0f}"])
    print(table(["script", "thousand instructions a request"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
