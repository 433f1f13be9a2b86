"""What a process' resident memory is made of, after Linux's ``/proc/<pid>/smaps``; see proc_pid_smaps(5)."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

LIBRARIES, BLOCKS, HEAP, THREADS, OTHER = PARTS = (
    "libraries: their code and data",
    "Python's arenas and large blocks",
    "the C heap",
    "the C heaps of other threads",
    "stacks and the rest",
)

_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \d+ *(.*)")
_LARGE_BYTES = 256 * 1024
_THREADS_HEAP_BYTES = 64 * 1024 * 1024
"""glibc aligns the heaps of threads to as much, and nothing else is likely to be."""


def resident_parts(pid: int) -> dict[str, int]:
    """Resident bytes of a process by part."""
    return parts_of(Path(f"/proc/{pid}/smaps").read_text())


def parts_of(smaps: str) -> dict[str, int]:
    """The same, of the file's text."""
    found = Counter(dict.fromkeys(PARTS, 0))
    for part, resident_bytes in _mappings(smaps):
        found[part] += resident_bytes
    return dict(found)


def _mappings(smaps: str) -> Iterator[tuple[str, int]]:
    part = OTHER
    for line in smaps.splitlines():
        if match := _MAPPING.match(line):
            part = _part(int(match[1], 16), int(match[2], 16), match[3])
        elif line.startswith("Rss:"):
            yield part, int(line.split()[1]) * 1024


def _part(begins: int, ends: int, name: str) -> str:
    if name.startswith("/"):
        return LIBRARIES
    if name == "[heap]":
        return HEAP
    if name:
        return OTHER
    if begins % _THREADS_HEAP_BYTES == 0:
        return THREADS
    return BLOCKS if ends - begins >= _LARGE_BYTES else OTHER
