"""Keeps Python's garbage collector out of the requests' way.

Nearly everything here is freed by its reference count; the collector only finds cycles, which exceptions and their
tracebacks make. By default it looks for them after every 700 new containers, several times a request under load, and
at times through all that the process holds.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_CONTAINERS = 10_000
"""New containers after which the young are looked through. What is in cycles waits as long, and clients that hang up
make many: with five times as many, a busy gateway holds 10 MiB more and is no faster."""


def collect_less() -> None:
    """What lives now is never looked at again, and what comes is looked at more rarely. Call it once all is built.

    What ``import`` remembers of folders goes too: which files are in them. It looks again where something is loaded
    later.
    """
    sys.path_importer_cache.clear()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_CONTAINERS, 20, 100)


@contextmanager
def no_garbage() -> Iterator[None]:
    """Looks for none while the block runs: where all that is made lives until the end, it takes a third of the time."""
    looks = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looks:
            gc.enable()
