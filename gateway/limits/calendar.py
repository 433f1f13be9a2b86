"""Periods of the calendar: when the one that a moment lies in began, and when it ends.

A period is counted on the wall clock of a place, so a day in New York is 23 or 25 hours long twice a year, and a month
as long as that month is. Days and weeks and their multiples are counted from a Monday, Monday the 5th of January 1970,
and minutes and hours, as they pass, from midnight, of whose day they must be a whole part; so where one begins depends
on nothing but the calendar: it is the same for every replica, and after every restart.
"""

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal

Unit = Literal["minute", "hour", "day", "week", "month"]

_WORDS: dict[str, Unit] = {"minute": "minute", "hour": "hour", "day": "day", "week": "week", "month": "month"}
_LETTERS: dict[str, Unit] = {"m": "minute", "h": "hour", "d": "day", "w": "week", "mo": "month"}
_OF_A_DAY = {"minute": 24 * 60, "hour": 24}
_MONTHS = 12
_LONGEST_DAYS = 366
_FIRST_MONDAY = datetime(1970, 1, 5)  # noqa: DTZ001  # a date on any wall


@dataclass(frozen=True, slots=True)
class Window:
    """One period that has a beginning and an end, in seconds since the epoch; the end is not part of it."""

    start_unix_s: int
    end_unix_s: int


@dataclass(frozen=True, slots=True)
class Period:
    """So many minutes, hours, days, weeks or months."""

    count: int
    unit: Unit

    def __str__(self) -> str:
        return self.unit if self.count == 1 else f"{self.count} {self.unit}s"

    def window(self, unix_s: float, zone: tzinfo) -> Window:
        """The period that the moment lies in, in ``zone``."""
        unix_s = math.floor(unix_s)  # a date would round its fraction
        if self.unit in _OF_A_DAY:
            day = _DAY.window(unix_s, zone)
            length_s = int(self._length().total_seconds())
            start_unix_s = day.start_unix_s + (unix_s - day.start_unix_s) // length_s * length_s
            return Window(start_unix_s, min(start_unix_s + length_s, day.end_unix_s))
        start = self._begun(datetime.fromtimestamp(unix_s, zone).replace(tzinfo=None, fold=0))
        end = self._next(start)
        if unix_s >= _unix_s(end, zone):  # a clock set back over midnight shows yesterday again
            start, end = end, self._next(end)
        return Window(_unix_s(start, zone), _unix_s(end, zone))

    def _begun(self, wall: datetime) -> datetime:
        midnight = wall.replace(hour=0, minute=0, second=0, microsecond=0)
        if self.unit == "month":
            months = (wall.year * _MONTHS + wall.month - 1) // self.count * self.count
            return midnight.replace(year=months // _MONTHS, month=months % _MONTHS + 1, day=1)
        length = self._length()
        return _FIRST_MONDAY + (midnight - _FIRST_MONDAY) // length * length

    def _next(self, start: datetime) -> datetime:
        if self.unit != "month":
            return start + self._length()
        months = start.year * _MONTHS + start.month - 1 + self.count
        return start.replace(year=months // _MONTHS, month=months % _MONTHS + 1)

    def _length(self) -> timedelta:
        return timedelta(**{f"{self.unit}s": self.count})


_DAY = Period(1, "day")


def read_period(text: str) -> Period:
    """A period from ``minute``, ``hour``, ``day``, ``week``, ``month``, or ``15m``, ``6h``, ``30d``, ``2w``, ``3mo``.

    Raises:
        ValueError: it is none, or no whole part of a day or a year.
    """
    if (word := _WORDS.get(text)) is not None:
        return Period(1, word)
    found = re.fullmatch(r"([1-9][0-9]{0,3})(mo|m|h|d|w)", text)
    if found is None:
        raise ValueError(f"`{text}` is no period: write minute, hour, day, week, month, or 15m, 6h, 30d, 2w, 3mo")
    period = Period(int(found[1]), _LETTERS[found[2]])
    if (whole := _OF_A_DAY.get(period.unit)) and whole % period.count:
        raise ValueError(f"{period} are no whole part of a day")
    if period.unit == "month" and _MONTHS % period.count:
        raise ValueError(f"{period} are no whole part of a year")
    if period.unit in {"day", "week"} and period._length().days > _LONGEST_DAYS:  # noqa: SLF001  # of this module
        raise ValueError(f"{period} are longer than a year")
    return period


def _unix_s(wall: datetime, zone: tzinfo) -> int:
    """The moment at which a wall clock shows this; the first of two, and the moment after where it never does."""
    moment = wall.replace(tzinfo=zone).astimezone(UTC)
    shown = moment.astimezone(zone).replace(tzinfo=None)
    return int((moment + max(wall - shown, timedelta(0))).timestamp())
