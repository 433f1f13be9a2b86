"""How the benchmarks take a process' memory apart."""

import os
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

SMAPS = """\
55d0c0000000-55d0c0010000 rw-p 00000000 00:00 0                          [heap]
Size:                 64 kB
Rss:                  40 kB
Pss:                  40 kB
7f0000000000-7f0000100000 rw-p 00000000 00:00 0
Rss:                   8 kB
7f1234500000-7f1234600000 rw-p 00000000 00:00 0
Rss:                1000 kB
7f1234700000-7f1234701000 rw-p 00000000 00:00 0
Rss:                   4 kB
7f1234800000-7f1234900000 r-xp 00000000 fe:00 77                         /usr/lib/lib with a blank.so
Rss:                 300 kB
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
Rss:                 100 kB
"""


@pytest.fixture
def smaps(benchmark_module: Callable[[str], ModuleType]) -> ModuleType:
    """The module under test."""
    return benchmark_module("smaps")


def test_each_mapping_is_of_one_part(smaps: ModuleType) -> None:
    """By its name where it has one, else by where it lies and how large it is."""
    expected = {
        smaps.HEAP: 40,
        smaps.THREADS: 8,
        smaps.BLOCKS: 1000,
        smaps.LIBRARIES: 300,
        smaps.OTHER: 104,
    }
    assert {part: kib * 1024 for part, kib in expected.items()} == smaps.parts_of(SMAPS)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_living_process_has_a_heap_and_libraries(smaps: ModuleType) -> None:
    """All parts are told of, those too of which there is nothing."""
    found = smaps.resident_parts(os.getpid())
    assert list(smaps.PARTS) == list(found)
    assert min(found[smaps.LIBRARIES], found[smaps.BLOCKS]) > 0
