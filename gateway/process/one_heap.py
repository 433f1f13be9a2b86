"""One C heap for all threads, and what is free in it goes back to the system.

glibc gives each thread that allocates a heap of its own, so that none waits for another. Here nearly all that allocate
hold Python's lock, and what one of those heaps has free is no use to the others: with the ledger's thread and two more
it is 3 to 5 MiB, and no time is gained by it.

By itself it gives back only what is free at the heap's end, where after a burst some small thing nearly always lives.
"""

import ctypes
import sys
from functools import cache
from typing import Any

_M_ARENA_MAX = -8
"""As ``malloc.h`` has it; see mallopt(3)."""


def share_one_heap() -> None:
    """To be called before the first thread is started. Other C libraries have one heap anyway."""
    if (mallopt := _glibc("mallopt")) is not None:
        mallopt(_M_ARENA_MAX, 1)


def give_back() -> None:
    """Whole pages that are free, wherever they lie; see malloc_trim(3). Other C libraries do so by themselves.

    A fifth of a millisecond where there are few, and 0.4 ms for each MiB that goes, in which nobody allocates: to be
    called when nobody waits.
    """
    if (trim := _glibc("malloc_trim")) is not None:
        trim(0)


@cache
def _glibc(name: str) -> Any:
    """The C library's function, or ``None`` where it has none of that name."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
