"""What the fuzzer has found worth keeping: every case that reached something of its own is played again."""

from pathlib import Path

import msgspec
import pytest

from tests.fuzzing.case import Case
from tests.fuzzing.play import play

CORPUS = {
    file.stem: [msgspec.json.decode(line, type=Case) for line in file.read_bytes().splitlines()]
    for file in sorted(Path(__file__).with_name("corpus").glob("*.jsonl"))
}


@pytest.mark.parametrize("driver", ["server", "upstream"])
async def test_the_corpus(driver: str) -> None:
    """Whatever a client or an upstream does there, every promise is kept; see ``tests/fuzzing``."""
    assert {driver} == {case.driver for case in CORPUS[driver]}
    for case in CORPUS[driver]:
        await play(case)
