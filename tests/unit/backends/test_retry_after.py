import math
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends._retry_after import read_retry_after

NOW_S = 1_700_000_000.0
CAP_S = 60.0


def _read(*values: str) -> float | None:
    return read_retry_after(values, now_unix_s=NOW_S, cap_s=CAP_S)


@pytest.mark.parametrize(
    ("value", "expected_s"),
    [
        ("2", 2.0),
        ("0", 0.0),
        (" 7 ", 7.0),
        ("0.25", 0.25),
        ("9" * 60, CAP_S),
        ("-5", None),
        ("1e999", None),
        ("nan", None),
        ("inf", None),
        ("", None),
        ("soon", None),
        ("2, 3", None),
        ("\u0662", None),
        ("9" * 5000, None),
        ("Wed, 31 Dec 99999 00:00:00 GMT", None),
    ],
)
def test_seconds_and_junk(value: str, expected_s: float | None) -> None:
    """Plain seconds are taken and capped; what is no number of seconds and no date says nothing."""
    assert expected_s == _read(value)


@pytest.mark.parametrize(("offset_s", "expected_s"), [(3, 3.0), (0, 0.0), (-3600, 0.0), (3 * 86_400, CAP_S)])
def test_date(offset_s: int, expected_s: float) -> None:
    """A date is a wait until then: none if it is past, the cap if it is far."""
    assert expected_s == _read(formatdate(NOW_S + offset_s, usegmt=True))


def test_obsolete_date_form() -> None:
    """The asctime form, which names no zone, is in GMT too."""
    assert 5.0 == _read("Tue Nov 14 22:13:25 2023")


def test_no_header() -> None:
    """Nothing said is not the same as zero."""
    assert _read() is None


def test_of_two_headers_the_longer_wait_counts() -> None:
    """A wait is a minimum, so the longest of several is obeyed, and junk beside it is not heard."""
    assert 9.0 == _read("2", "9", "junk")


@given(st.lists(st.text() | st.floats().map(str) | st.integers().map(str), max_size=3), st.floats(0, 1e6))
def test_any_header_gives_nothing_or_a_wait_within_the_cap(values: list[str], cap_s: float) -> None:
    """Whatever an upstream sends, the answer is ``None`` or finite seconds from 0 to the cap."""
    actual = read_retry_after(values, now_unix_s=NOW_S, cap_s=cap_s)
    assert actual is None or (math.isfinite(actual) and 0.0 <= actual <= cap_s)
