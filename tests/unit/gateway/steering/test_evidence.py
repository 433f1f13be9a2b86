"""What verdicts make likely: of what was judged, and of what lies beside it."""

from typing import Any

import pytest

from gateway.forecast import RequestKind
from gateway.steering.evidence import Chance, Evidence
from gateway.steering.tallies import Tallies

NOW_S = 1_000_000.0
WEEK_S = 7 * 86_400.0
SHORT, LONG = RequestKind.SHORT_IN_SHORT_OUT, RequestKind.SHORT_IN_LONG_OUT


class Known:
    """Evidence, and a short way to add to it and to ask it."""

    def __init__(self, judged_request: Any) -> None:
        self.evidence = Evidence(Tallies("a"))
        self._request = judged_request

    def count(self, successes: int, failures: int, *, share: float = 1.0, back: bool = False, **fields: Any) -> None:
        """Tasks of which each had ``1 / share`` requests, one of them here."""
        fields = {"received_unix_s": NOW_S, **fields}
        for success, times in ((True, successes), (False, failures)):
            for _ in range(times):
                self.evidence.count(
                    self._request(**fields), share=share, success=success, half_life_s=WEEK_S, taken_back=back
                )

    def chance(
        self, backend: str = "alpha", kind: RequestKind = SHORT, *, route: str = "chat", later_s: float = 0
    ) -> Chance:
        """Of one cell."""
        cell = (kind, backend, "small")
        return self.evidence.chance(route, cell, now_unix_s=NOW_S + later_s, half_life_s=WEEK_S, confidence=0.95)[0]


@pytest.fixture
def known(judged_request: Any) -> Known:
    """Nothing yet."""
    return Known(judged_request)


def test_nothing_is_known_at_first(known: Known) -> None:
    """One half, and anything is possible."""
    success = known.chance().success(0.95)
    assert (0.5, 0.0) == (success.mean, success.n)
    assert success.low < 0.15
    assert success.high > 0.85


def test_it_learns_how_often_tasks_succeed(known: Known) -> None:
    """Closer and closer; the interval has it inside."""
    known.count(80, 20)
    success = known.chance().success(0.95)
    assert 0.8 == pytest.approx(success.mean, abs=0.02)
    assert success.low < 0.8 < success.high
    assert success.high - success.low < 0.15
    assert 100 == success.n


def test_a_task_counts_once_however_many_requests_it_had(known: Known) -> None:
    """Four requests of one task are a quarter each; and so many requests a task is known to have."""
    known.count(40, 0, share=0.25)
    chance = known.chance()
    assert 10 == pytest.approx(chance.n)
    assert 4 == pytest.approx(chance.calls, abs=0.3)


def test_a_new_backend_starts_from_its_route(known: Known) -> None:
    """From what tasks there come to, not from one half; and in doubt."""
    known.count(90, 10)
    new = known.chance("beta").success(0.95)
    assert 0.9 == pytest.approx(new.mean, abs=0.02)
    assert 0 == new.n
    assert new.low < 0.65


def test_however_badly_others_do_a_new_backend_can_be_tried(known: Known) -> None:
    """A route on which nothing ever worked says little of who was never asked there."""
    known.count(0, 1000)
    untried = known.chance("beta").success(0.95)
    assert 0.1 == pytest.approx(untried.mean, abs=0.01)
    assert untried.high > 0.4
    assert known.chance().mean < 0.001


def test_a_new_kind_of_request_starts_from_the_backend_and_from_the_kind(known: Known) -> None:
    """A backend that is worse than others at what is known is taken to be worse at what is new."""
    known.count(90, 10, backend="alpha")
    known.count(30, 70, backend="beta")
    known.count(90, 10, backend="alpha", kind=LONG)
    assert known.chance("beta", LONG).mean < known.chance("gamma", LONG).mean < known.chance("alpha", LONG).mean
    known.count(5, 95, backend="gamma", kind=LONG)
    assert known.chance("delta", LONG).mean < known.chance("delta", SHORT).mean


def test_routes_learn_apart(known: Known) -> None:
    """What a success is, each defines for itself."""
    known.count(0, 50)
    assert 0.5 == known.chance(route="other").mean


def test_the_past_fades(known: Known) -> None:
    """After a half-life half is left, and doubt comes back; a verdict that comes late counts as old as its request."""
    known.count(100, 0)
    assert 50 == pytest.approx(known.chance(later_s=WEEK_S).n)
    known.count(0, 100, received_unix_s=NOW_S - WEEK_S)
    assert 150 == pytest.approx(known.chance().n)


def test_what_is_taken_back_was_never_there(known: Known) -> None:
    """To the last digit that matters, also after others have come."""
    known.count(10, 5)
    before = known.chance()
    known.count(1, 0, share=0.5, received_unix_s=NOW_S - 3600)
    known.count(1, 0, share=0.5, received_unix_s=NOW_S - 3600, back=True)
    assert pytest.approx(list(before)) == list(known.chance())


def test_more_taken_back_than_was_counted_is_nothing(known: Known) -> None:
    """Where a store has forgotten what it said before, no chance goes out of bounds."""
    known.count(3, 0, back=True)
    chance = known.chance()
    assert chance.successes > 0
    assert chance.failures > 0
    assert 0 < chance.mean < 1


def test_it_tells_what_it_knows_of_a_route(known: Known) -> None:
    """The cells that were judged, those with most tasks first."""
    known.count(1, 0, backend="beta")
    known.count(5, 5)
    told = known.evidence.known("chat", now_unix_s=NOW_S, half_life_s=WEEK_S)
    assert [("alpha", 10), ("beta", 1)] == [(cell[1], round(chance.n)) for cell, chance in told]


def test_names_that_clients_choose_break_nothing_and_are_bounded(known: Known) -> None:
    """A model may be called anything; beyond so many of a route, further ones are taken together."""
    known.count(4, 0, backend="b/with|odd", model="small")
    known.count(1, 0, model="\x1fa\x1fb\x1f" * 100)
    for number in range(300):
        known.count(1, 0, model=f"made-up-{number}")
    told = known.evidence.known("chat", now_unix_s=NOW_S, half_life_s=WEEK_S)
    assert len(told) <= 257
    assert 4 == pytest.approx(known.chance("b/with|odd").n)
    assert 305 == pytest.approx(sum(chance.n for _, chance in told))
