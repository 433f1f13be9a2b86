import gc
import importlib.util
import sys
from collections.abc import Iterator

import pytest

from gateway.process.garbage import YOUNG_CONTAINERS, collect_less, no_garbage


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """The collector of the process is as it was before."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_what_lives_at_the_start_is_never_looked_at_again() -> None:
    """It is frozen, save for what was garbage already; what comes is looked at, at longer intervals."""
    garbage: list[object] = []
    garbage.append(garbage)
    del garbage
    collect_less()
    assert 0 < gc.get_freeze_count()
    assert 0 == gc.collect()
    assert YOUNG_CONTAINERS == gc.get_threshold()[0]
    assert gc.isenabled()


def test_what_import_remembers_of_folders_goes() -> None:
    """Which files are in them is looked up again where something is loaded later."""
    found = importlib.util.find_spec("this")
    assert len(sys.path_importer_cache) > 0
    collect_less()
    assert {} == sys.path_importer_cache
    assert found == importlib.util.find_spec("this")


def test_nobody_looks_while_all_of_it_lives() -> None:
    """And afterwards it is as it was."""
    looks = [gc.isenabled()]
    with no_garbage():
        looks.append(gc.isenabled())
    assert [True, False, True] == [*looks, gc.isenabled()]
