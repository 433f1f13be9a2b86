import logging
from typing import Any

import pytest

from backends._keys import KeyRing, key_names
from gateway.errors import (
    UpstreamError,
    UpstreamFailed,
    UpstreamOutOfFunds,
    UpstreamRateLimited,
    UpstreamUnauthorised,
)

SECRETS = (("KEY_A", "sk-first-0123"), ("KEY_B", "sk-second-456"), ("KEY_C", "sk-third-789"))


def _ring(clock: Any, keys: int = 2) -> KeyRing:
    return KeyRing("paid", SECRETS[:keys], clock=clock)


def _refuse(ring: KeyRing, error: UpstreamError) -> str:
    """One call that ends so; the name of the key that it went with."""
    with pytest.raises(type(error)), ring.key() as key:
        raise error
    return key.name


def test_healthy_keys_share_the_load(hand_clock: Any) -> None:
    """The key with the fewest calls under way is next; of equals the one that was used least lately."""
    ring = _ring(hand_clock, 3)
    with ring.key() as first, ring.key() as second:
        assert {"KEY_A", "KEY_B"} == {first.name, second.name}
        with ring.key() as third:
            assert "KEY_C" == third.name
    taken = []
    for _ in range(6):
        with ring.key() as key:
            taken.append(key.name)
    assert [2, 2, 2] == [taken.count(name) for name, _ in SECRETS]


@pytest.mark.parametrize(
    ("error", "rest_s"),
    [
        (UpstreamRateLimited("x", retry_after_s=7.0), 7.0),
        (UpstreamRateLimited("x"), 5.0),
        (UpstreamUnauthorised("x"), 60.0),
        (UpstreamUnauthorised("x", retry_after_s=1.0), 60.0),
        (UpstreamOutOfFunds("x"), 900.0),
    ],
)
def test_a_key_that_is_refused_rests(hand_clock: Any, error: UpstreamError, rest_s: float) -> None:
    """For the time that the upstream names after a rate limit, for long where people have to mend it."""
    ring = _ring(hand_clock)
    assert "KEY_A" == _refuse(ring, error)
    assert (True, None) == (error.another_key, error.retry_after_s)
    hand_clock.advance(rest_s - 0.01)
    for _ in range(3):
        with ring.key() as key:
            assert "KEY_B" == key.name
    hand_clock.advance(0.01)
    with ring.key() as key:
        assert "KEY_A" == key.name


def test_when_all_rest_the_wait_is_that_of_the_first_to_come_back(hand_clock: Any) -> None:
    """The backend is down then, for as long as it takes, whichever key was refused last."""
    ring, last = _ring(hand_clock), UpstreamOutOfFunds("x")
    _refuse(ring, UpstreamRateLimited("x", retry_after_s=20.0))
    hand_clock.advance(5)
    assert "KEY_B" == _refuse(ring, last)
    assert (False, 15.0) == (last.another_key, last.retry_after_s)
    with ring.key() as key:
        assert "KEY_A" == key.name


def test_other_failures_are_no_keys_fault(hand_clock: Any) -> None:
    """A 500 lets no key rest."""
    ring, error = _ring(hand_clock), UpstreamFailed("x")
    assert ["KEY_A", "KEY_B", "KEY_A"] == [_refuse(ring, error) for _ in range(3)]
    assert (False, None) == (error.another_key, error.retry_after_s)


def test_the_log_names_the_variable_and_never_the_key(hand_clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever reads the log knows which key to look after."""
    with caplog.at_level(logging.DEBUG):
        _refuse(_ring(hand_clock), UpstreamUnauthorised("x"))
    assert "paid: the key in KEY_A rests for 60 s (upstream_unauthorised)" in caplog.text
    assert "sk-first" not in caplog.text


def test_names_stand_alone_or_in_a_list() -> None:
    """Nothing, one name, or several; the same one twice is a mistake."""
    assert ((), ("A",), ("A", "B")) == (key_names(""), key_names("A"), key_names(("A", "B")))
    for wrong in (("A", "A"), ("A", "")):
        with pytest.raises(ValueError, match="`api_key_env`"):
            key_names(wrong)
