import logging

import pytest

from gateway.seldom import Seldom, SeldomFilter

LOG = logging.getLogger("test.seldom")


def test_complains_once_an_interval_and_counts_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    """The first complaint comes at once, the next after the interval, with the number of those in between."""
    now_s = [0.0]
    complain = Seldom(LOG, interval_s=60.0, now_s=lambda: now_s[0])
    for moment_s in (0.0, 1.0, 59.9, 60.0, 61.0):
        now_s[0] = moment_s
        complain("%s failed", "disk")
    assert ["disk failed", "disk failed", "2 more like it were not logged"] == [r.message for r in caplog.records]


def test_filter_keeps_a_library_quiet(caplog: pytest.LogCaptureFixture) -> None:
    """A library that complains about the same trouble in many words gets one line an interval."""
    now_s = [0.0]
    quiet = SeldomFilter(interval_s=60.0, now_s=lambda: now_s[0])
    LOG.addFilter(quiet)
    try:
        for moment_s in (0.0, 1.0, 60.0):
            now_s[0] = moment_s
            LOG.error("at %s", moment_s)
    finally:
        LOG.removeFilter(quiet)
    assert ["at 0.0", "at 60.0"] == [record.message for record in caplog.records]
