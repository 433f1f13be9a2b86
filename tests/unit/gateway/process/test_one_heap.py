import platform
import subprocess
import sys

import pytest

# A thread's own heap lies at a multiple of 64 MiB. What is too large for Python's arenas is C's to allocate.
_PROGRAM = """
import re, sys, threading
from pathlib import Path
from gateway.process.one_heap import share_one_heap
if sys.argv[1] == "shared":
    share_one_heap()
kept = []
threads = [threading.Thread(target=lambda: kept.append([bytes(1000) for _ in range(1000)])) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
starts = re.findall(r"^([0-9a-f]+)-[0-9a-f]+ rw-p 0+ 00:00 0 *$", Path("/proc/self/maps").read_text(), re.MULTILINE)
print(sum(int(start, 16) % 2**26 == 0 for start in starts))
"""

# Each block that is freed lies between two that live on.
_BURST = """
import resource
from pathlib import Path
from gateway.process.one_heap import give_back
def resident(): return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
blocks = [bytes(33_000) for _ in range(2000)]
del blocks[::2]
before = resident()
give_back()
print(before - resident())
"""
_GLIBC = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries do so by themselves")


@_GLIBC
def test_what_is_free_between_what_lives_goes_back() -> None:
    """Of 33 MB what are whole pages, seven in each block."""
    done = subprocess.run([sys.executable, "-c", _BURST], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 20_000_000


@_GLIBC
def test_threads_allocate_from_one_heap() -> None:
    """Without it each thread that allocates has a heap of its own."""

    def heaps(how: str) -> int:
        done = subprocess.run([sys.executable, "-c", _PROGRAM, how], capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert heaps("apart") > 0
    assert 0 == heaps("shared")
