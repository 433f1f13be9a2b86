"""One heap for all threads.

glibc gives each thread that allocates a heap of its own, so that none waits for another. Here nearly all that allocate
hold Python's lock, and what one of those heaps has free is no use to the others: with the ledger's thread and two more
it is 3 to 5 MiB, and no time is gained by it.
"""

import ctypes
import sys

_M_ARENA_MAX = -8
"""As ``malloc.h`` has it; see mallopt(3)."""


def share_one_heap() -> None:
    """To be called before the first thread is started. Other C libraries have one heap anyway."""
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(_M_ARENA_MAX, 1)
