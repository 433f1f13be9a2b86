"""What policies learn is kept in files, and given back: to the same configuration, and to nobody else."""

import logging
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gateway.learning.learning import SAVE_EVERY_S, Learning
from gateway.ports import Learner, Shared
from gateway.stores.memory import MemoryShared

Make = Callable[..., Learning]
Kept = Callable[[], dict[Path, bytes]]


@dataclass(frozen=True, kw_only=True)
class Pupil:
    """Learns by heart what it is given: a learner of the port, with one parameter."""

    grade: int = 1
    _known: dict[str, bytes] = field(init=False, repr=False, compare=False, default_factory=dict)
    _met: list[Shared] = field(init=False, repr=False, compare=False, default_factory=list)

    def share(self, shared: Shared) -> None:
        """See ``Learner``."""
        self._met.append(shared)

    def learned(self) -> Iterator[tuple[str, bytes]]:
        """See ``Learner``."""
        yield from self._known.items()

    def resume(self, record: bytes) -> None:
        """See ``Learner``."""
        if record == b"nonsense":
            raise ValueError("a record of another release")
        self._known[record.decode()] = record


@pytest.fixture
async def make_learning(tmp_path: Path, hand_clock: Any) -> AsyncIterator[Make]:
    """Makes what keeps the learning of some learners below one directory; closed at the end."""
    made: list[Learning] = []

    def make(*learners: Learner, directory: Path = tmp_path / "learned") -> Learning:
        shared = MemoryShared(hand_clock)
        made.append(Learning(directory, shared=shared, clock=hand_clock, learners=lambda: learners))
        return made[-1]

    yield make
    for learning in made:
        await learning.close()


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """The files that are there now, and what they hold."""
    return lambda: {path: path.read_bytes() for path in tmp_path.rglob("*.learned")}


async def test_a_learner_is_given_back_what_it_had_learned(make_learning: Make) -> None:
    """Every record, as it was; and the line to the replicas, once."""
    before, after = Pupil(), Pupil()
    before._known.update({"verbs": b"verbs", "nouns": b"nouns"})
    first = make_learning(before)
    await first.start()
    await first.close()
    second = make_learning(after)
    await second.start()
    await second.begin([after])
    assert {"verbs": b"verbs", "nouns": b"nouns"} == after._known
    assert 1 == len(after._met)


async def test_another_configuration_begins_anew(make_learning: Make) -> None:
    """What was learned under other parameters may mean something else."""
    before, after = Pupil(grade=1), Pupil(grade=2)
    before._known["verbs"] = b"verbs"
    await make_learning(before).save()
    await make_learning(after).begin([after])
    assert {} == after._known


async def test_a_learner_that_comes_with_a_reload_begins_too(make_learning: Make) -> None:
    """Those who stay are left alone."""
    stays, comes = Pupil(grade=1), Pupil(grade=2)
    learning = make_learning(stays)
    await learning.start()
    stays._known["verbs"] = b"new verbs"
    await learning.begin([stays, comes])
    assert (1, 1) == (len(stays._met), len(comes._met))
    assert {"verbs": b"new verbs"} == stays._known


async def test_a_record_that_is_no_longer_there_is_removed(make_learning: Make, kept: Kept) -> None:
    """A tenant that was forgotten is forgotten on the disk."""
    pupil = Pupil()
    pupil._known.update({"verbs": b"verbs", "nouns": b"nouns"})
    learning = make_learning(pupil)
    await learning.save()
    del pupil._known["verbs"]
    await learning.save()
    assert [b"nouns"] == list(kept().values())


async def test_files_are_for_their_owner_alone(make_learning: Make, kept: Kept) -> None:
    """They tell something of what tenants write."""
    pupil = Pupil()
    pupil._known["verbs"] = b"verbs"
    await make_learning(pupil).save()
    [path] = kept()
    assert (0o600, 0o700) == tuple(stat.S_IMODE(place.stat().st_mode) for place in (path, path.parent))


async def test_it_is_saved_every_five_minutes(make_learning: Make, kept: Kept, hand_clock: Any) -> None:
    """A process that is killed loses no more than that."""
    pupil = Pupil()
    await make_learning(pupil).start()
    await hand_clock.asleep.wait()
    pupil._known["verbs"] = b"verbs"
    hand_clock.asleep.clear()
    hand_clock.advance(SAVE_EVERY_S)
    await hand_clock.asleep.wait()
    assert [b"verbs"] == list(kept().values())


async def test_a_record_that_is_none_is_left_behind_with_a_word(
    make_learning: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """The others are taken all the same; many that are refused for one reason are told once."""
    pupil = Pupil()
    pupil._known.update({"bad": b"nonsense", "worse": b"nonsense", "verbs": b"verbs"})
    await make_learning(pupil).save()
    fresh = Pupil()
    await make_learning(fresh).begin([fresh])
    assert {"verbs": b"verbs"} == fresh._known
    assert ["what Pupil had learned is left behind, and learned anew: a record of another release"] == caplog.messages


async def test_a_directory_that_cannot_be_written_is_told_once_and_does_no_harm(
    make_learning: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A gateway that cannot remember serves all the same."""
    blocked = tmp_path / "file"
    blocked.write_text("here is no directory")
    pupil = Pupil()
    pupil._known.update({"verbs": b"verbs", "nouns": b"nouns"})
    learning = make_learning(pupil, directory=blocked)
    with caplog.at_level(logging.INFO):
        await learning.begin([pupil])
        await learning.save()
    assert ["what was learned cannot be kept: Not a directory"] == caplog.messages


async def test_of_many_configurations_the_latest_stay(make_learning: Make, kept: Kept) -> None:
    """Eight folders; whoever tries parameters out does not fill the disk."""
    for grade in range(12):
        pupil = Pupil(grade=grade)
        pupil._known["verbs"] = str(grade).encode()
        await make_learning(pupil).save()
    assert 8 == len(kept())
    assert b"11" in kept().values()
