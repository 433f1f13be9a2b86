"""Periods of the calendar."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.limits.calendar import Period, read_period

NEW_YORK = ZoneInfo("America/New_York")
TOKYO = ZoneInfo("Asia/Tokyo")
PERIODS = ["minute", "15m", "hour", "6h", "day", "30d", "week", "2w", "month", "3mo", "12mo"]
ZONES = [
    "UTC",
    "Asia/Tokyo",
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "America/St_Johns",
]


def _at(text: str, zone: ZoneInfo) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


@pytest.mark.parametrize(
    ("period", "zone", "now", "start", "end"),
    [
        ("day", TOKYO, "2026-11-30T00:30", "2026-11-30T00:00", "2026-12-01T00:00"),
        ("month", NEW_YORK, "2026-01-31T23:59", "2026-01-01T00:00", "2026-02-01T00:00"),
        ("month", TOKYO, "2028-02-29T12:00", "2028-02-01T00:00", "2028-03-01T00:00"),
        ("week", NEW_YORK, "2026-11-29T10:00", "2026-11-23T00:00", "2026-11-30T00:00"),
        ("15m", TOKYO, "2026-11-30T10:44:59", "2026-11-30T10:30", "2026-11-30T10:45"),
        ("3mo", TOKYO, "2026-11-30T10:44", "2026-10-01T00:00", "2027-01-01T00:00"),
    ],
)
def test_a_period_is_counted_on_the_wall_of_its_place(
    period: str, zone: ZoneInfo, now: str, start: str, end: str
) -> None:
    """It begins and ends where people there expect it."""
    window = read_period(period).window(_at(now, zone), zone)
    assert (_at(start, zone), _at(end, zone)) == (window.start_unix_s, window.end_unix_s)


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-08", 23), ("2026-11-01", 25), ("2026-03-09", 24)], ids=["spring", "autumn", "usual"]
)
def test_a_day_is_as_long_as_the_clock_there_makes_it(day: str, hours: int) -> None:
    """Where the clock is set forward it is an hour shorter, where it is set back an hour longer."""
    window = read_period("day").window(_at(f"{day}T12:00", NEW_YORK), NEW_YORK)
    assert hours * 3600 == window.end_unix_s - window.start_unix_s


@given(
    text=st.sampled_from(PERIODS),
    zone=st.sampled_from(ZONES),
    unix_s=st.floats(min_value=0, max_value=datetime(2100, 1, 1, tzinfo=UTC).timestamp()),
)
def test_periods_follow_one_another_without_gap_or_overlap(text: str, zone: str, unix_s: float) -> None:
    """A moment lies in its window, the last second lies in it too, and the next one begins where it ends."""
    period, place = read_period(text), ZoneInfo(zone)
    window = period.window(unix_s, place)
    assert window.start_unix_s <= unix_s < window.end_unix_s
    assert window == period.window(window.start_unix_s, place)
    assert window == period.window(window.end_unix_s - 0.001, place)
    assert window.end_unix_s == period.window(window.end_unix_s, place).start_unix_s


@pytest.mark.parametrize("text", ["", "0m", "7m", "5h", "5mo", "400d", "year", "1.5h", "-1d", "60", "99999d"])
def test_what_is_no_period_is_refused(text: str) -> None:
    """Also what is no whole part of a day or a year, since its beginning would depend on when one began to count."""
    with pytest.raises(ValueError, match=r"period|part|longer"):
        read_period(text)


def test_a_period_reads_as_people_say_it() -> None:
    """For errors and headers."""
    assert ["day", "30 days"] == [str(Period(1, "day")), str(read_period("30d"))]
