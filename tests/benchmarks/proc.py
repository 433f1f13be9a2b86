"""What Linux's /proc says of a process and all its descendants: CPU time, resident memory, open descriptors."""

import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Stat:
    """The fields of ``/proc/<pid>/stat`` that are used here; see proc_pid_stat(5)."""

    parent: int
    cpu_ticks: int
    resident_pages: int


def parse_stat(text: str) -> Stat:
    """Reads one line of ``/proc/<pid>/stat``. The command's name, in brackets, may hold blanks and brackets itself."""
    fields = text.rpartition(")")[2].split()
    # From field 3 on; user and system time, each also of the children that have been waited for.
    return Stat(parent=int(fields[1]), cpu_ticks=sum(map(int, fields[11:15])), resident_pages=int(fields[21]))


def descendants(pid: int, parents: dict[int, int]) -> Iterator[int]:
    """``pid`` and all below it, where ``parents`` gives each process' parent."""
    children = defaultdict(list)
    for child, parent in parents.items():
        children[parent].append(child)
    waiting = [pid]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += children[found]


def cpu_s(pid: int) -> float:
    """Seconds of CPU time, user and system, of the tree since its start. Good to one tick, usually 10 ms."""
    return sum(stat.cpu_ticks for stat in _tree(pid).values()) / _TICKS_PER_S


def machine_cpu_s() -> float:
    """Seconds of CPU time that all cores together have been at work since the machine's start; see proc_stat(5)."""
    user, nice, system, _idle, _iowait, *interrupts = map(
        int, (PROC / "stat").read_text().partition("\n")[0].split()[1:8]
    )
    return (user + nice + system + sum(interrupts)) / _TICKS_PER_S


def main_thread_cpu_s(pid: int) -> float:
    """Seconds of CPU time of the process' first thread alone."""
    return parse_stat((PROC / str(pid) / "task" / str(pid) / "stat").read_text()).cpu_ticks / _TICKS_PER_S


def resident_bytes(pid: int) -> int:
    """Resident memory of the tree; pages that its processes share are counted once for each."""
    return sum(stat.resident_pages for stat in _tree(pid).values()) * _PAGE_BYTES


def descriptors(pid: int) -> int:
    """Open file descriptors of the tree."""
    return sum(1 for process in _tree(pid) for _ in (PROC / str(process) / "fd").iterdir())


def cpu_model() -> str:
    """The processor's name as the kernel tells it."""
    for line in (PROC / "cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return "unknown"


def _tree(pid: int) -> dict[int, Stat]:
    stats = {}
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            try:
                stats[int(folder.name)] = parse_stat((folder / "stat").read_text())
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended between the listing and the reading
    if pid not in stats:
        raise ProcessLookupError(f"process {pid} has ended")
    return {found: stats[found] for found in descendants(pid, {one: stat.parent for one, stat in stats.items()})}
