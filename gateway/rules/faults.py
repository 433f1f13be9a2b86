"""Several mistakes of one file, gathered so that all are told at once."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from gateway.errors import ConfigurationError

T = TypeVar("T")


class Faults:
    """What was found wrong so far. Each level of a file gathers its own, and tells them to the one above."""

    def __init__(self) -> None:
        self._found: list[ConfigurationError] = []

    def __len__(self) -> int:
        return len(self._found)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Goes on after a block that raises a ``ConfigurationError``, which is kept with all beside it."""
        try:
            yield
        except ConfigurationError as error:
            self.add(error)

    def add(self, error: ConfigurationError) -> None:
        """Keeps one, with all beside it."""
        self._found += error.all

    def either(self, make: Callable[[], T], otherwise: Callable[[], T]) -> T:
        """What ``make`` makes; where it is at fault, that is kept, and ``otherwise`` stands in for what follows."""
        try:
            return make()
        except ConfigurationError as error:
            self.add(error)
            return otherwise()

    def error(self, *, file: str = "") -> ConfigurationError:
        """The first of those that were found, with all others ``beside`` it, each in its file.

        What is told of a place twice, as of ``defaults`` for each route, is told once.
        """
        named = [one if one.file or not file else one.within(file) for one in self._found]
        first, *others = {str(one): one for one in named}.values()
        return first.with_others(others)

    def tell(self, *, file: str = "") -> None:
        """Ends here where anything was found.

        Raises:
            ConfigurationError: as ``error`` has it.
        """
        if self._found:
            raise self.error(file=file)


class Misfit(NamedTuple):
    """A value that does not fit. ``instead`` is a known name like the unknown one that stands there."""

    error: ConfigurationError
    missing: bool = False
    unknown: bool = False
    instead: str = ""


def misfit_error(found: Sequence[Misfit]) -> ConfigurationError:
    """The first, with the others beside it: of each place one, and those with unknown names first.

    What only follows from something else is not told. Where a value may be of several kinds, each of them says what it
    finds: the deepest is the one which was meant. A misspelt name also makes another one missing.
    """
    faults = Faults()
    meant = {_beside(one.error.where, one.instead) for one in found if one.instead}
    places = dict.fromkeys(one.error.where for one in found)
    told: set[str] = set()
    for one in sorted(found, key=lambda one: not one.unknown):
        where = one.error.where
        if where not in told and not (one.missing and where in meant) and not _is_around(where, places):
            told.add(where)
            faults.add(one.error)
    return faults.error()


def _beside(where: str, name: str) -> str:
    """The path of another name in what holds a place."""
    around = where.rpartition(".")[0]
    return f"{around}.{name}" if around else name


def _is_around(where: str, places: Iterable[str]) -> bool:
    return any(place.startswith((f"{where}.", f"{where}[")) for place in places)
