"""How the benchmarks read /proc."""

import os
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


@pytest.fixture
def proc(benchmark_module: Callable[[str], ModuleType]) -> ModuleType:
    """The module under test."""
    return benchmark_module("proc")


def test_a_command_may_hold_blanks_and_brackets(proc: ModuleType) -> None:
    """The kernel writes a process' name as it is, so that fields are counted from the last bracket."""
    line = "42 (tricky) name (x) S 7 42 42 0 -1 4194560 100 0 0 0 30 20 5 1 20 0 1 0 9 1000 250 18446744073709551615"
    assert proc.Stat(parent=7, cpu_ticks=56, resident_pages=250) == proc.parse_stat(line)


def test_a_tree_is_all_that_descends_from_its_root(proc: ModuleType) -> None:
    """Grandchildren count, siblings of the root do not."""
    parents = {1: 0, 10: 1, 11: 1, 100: 10, 101: 10, 1000: 101}
    assert {10, 100, 101, 1000} == set(proc.descendants(10, parents))


@linux_only
def test_a_living_process_has_memory_and_descriptors(proc: ModuleType) -> None:
    """This process uses memory, and at least its three standard descriptors are open."""
    assert proc.resident_bytes(os.getpid()) > 0
    assert proc.descriptors(os.getpid()) >= 3


@linux_only
def test_a_process_that_has_ended_is_not_taken_for_an_idle_one(proc: ModuleType) -> None:
    """Otherwise a crashed server would look like a fast one."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(ProcessLookupError):
        proc.cpu_s(child)
