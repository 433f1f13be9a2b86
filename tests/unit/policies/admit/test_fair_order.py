"""Whose turn it is."""

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from policies.admit._fair_order import CLASSES, FairOrder, Waiter


def _waiter(tenant: str = "a", priority: str = "standard", **fields: Any) -> Waiter:
    values = {"weight": 1.0, "tokens": 100, "work_s": 1.0, "slack_s": 10.0, "since_s": 0.0} | fields
    return Waiter(tenant=tenant, priority=priority, **values)


def _drain(order: FairOrder, now_s: float = 0.0) -> list[Waiter]:
    """Serves all, each charged its tokens, as the queue does."""
    served = []
    while (waiter := order.pop(now_s)) is not None:
        order.charge(waiter.tenant, waiter.weight, waiter.tokens)
        served.append(waiter)
    return served


def test_classes_go_in_their_order() -> None:
    """Whatever came first."""
    order = FairOrder(age_s=20)
    for priority in ("batch", "standard", "interactive", "unheard-of"):
        order.push(_waiter(priority=priority))
    assert ["interactive", "standard", "batch", "unheard-of"] == [waiter.priority for waiter in _drain(order)]


def test_nobody_starves() -> None:
    """A batch request that has waited long enough goes before an interactive one that has just come."""
    order = FairOrder(age_s=20)
    order.push(_waiter(priority="batch", since_s=0))
    order.push(_waiter(priority="interactive", since_s=45))
    assert ["batch", "interactive"] == [waiter.priority for waiter in _drain(order, now_s=45)]


def test_the_short_and_urgent_of_a_tenant_come_first() -> None:
    """By work times slack, then by arrival."""
    order = FairOrder(age_s=20)
    waiters = [
        _waiter(work_s=work_s, slack_s=slack_s) for work_s, slack_s in ((5, 10), (1, 10), (2, 1), (1, 10), (9, -1))
    ]
    for waiter in waiters:
        order.push(waiter)
    assert [waiters[i] for i in (4, 2, 1, 3, 0)] == _drain(order)


def test_a_tenant_that_floods_waits_for_the_others() -> None:
    """Of a hundred against ten: while both wait, they take turns."""
    order = FairOrder(age_s=1000)
    for _ in range(100):
        order.push(_waiter("hog"))
    for _ in range(10):
        order.push(_waiter("small"))
    first = [waiter.tenant for waiter in _drain(order)[:20]]
    assert 10 == first.count("small")


def test_weights_are_shares() -> None:
    """One with weight 3 is served three tokens for each of the other's."""
    order = FairOrder(age_s=1000)
    for _ in range(40):
        order.push(_waiter("heavy", weight=3.0))
        order.push(_waiter("light"))
    first = [waiter.tenant for waiter in _drain(order)[:40]]
    assert 30 == first.count("heavy")


def test_a_pause_saves_up_few_turns() -> None:
    """Who comes back after others were served thirty is eight ahead, and takes turns from there on."""
    order = FairOrder(age_s=1000)
    for _ in range(70):
        order.push(_waiter("busy"))
    for _ in range(30):
        waiter = order.pop(0.0)
        assert waiter is not None
        order.charge(waiter.tenant, 1.0, waiter.tokens)
    for _ in range(30):
        order.push(_waiter("back"))
    first = [waiter.tenant for waiter in _drain(order)]
    assert ["back"] * 8 == first[:8]
    assert 10 == first[8:28].count("back")


def test_what_was_really_used_is_charged_in_the_end() -> None:
    """A tenant whose answers are longer than predicted is served less often."""
    order = FairOrder(age_s=1000)
    for _ in range(30):
        order.push(_waiter("modest"))
        order.push(_waiter("lengthy"))
    served = []
    for _ in range(30):
        waiter = order.pop(0.0)
        assert waiter is not None
        order.charge(waiter.tenant, 1.0, waiter.tokens)
        order.charge(waiter.tenant, 1.0, waiter.tokens if waiter.tenant == "lengthy" else 0)
        served.append(waiter.tenant)
    assert 20 == served.count("modest")


@given(seed=st.integers(min_value=0, max_value=10_000))
def test_backlogged_tenants_are_never_far_apart(seed: int) -> None:
    """The gap in service of two that both wait is at most two of the largest requests (Sheng et al., theorem 4.4)."""
    dice = random.Random(seed)  # noqa: S311  # a test's dice
    order = FairOrder(age_s=1e9)
    names = ["a", "b", "c"]
    for name in names:
        for _ in range(60):
            order.push(_waiter(name, tokens=dice.randrange(1, 500)))
    got = dict.fromkeys(names, 0)
    for _ in range(60):  # nobody's backlog can be gone before
        waiter = order.pop(0.0)
        assert waiter is not None
        order.charge(waiter.tenant, 1.0, waiter.tokens)
        got[waiter.tenant] += waiter.tokens
        assert max(got.values()) - min(got.values()) <= 2 * 500


class Comings(RuleBasedStateMachine):
    """Anybody may come, be served or leave, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.order = FairOrder(age_s=5)
        self.waiting: list[Waiter] = []
        self.now_s = 0.0

    @rule(
        tenant=st.sampled_from("abc"),
        priority=st.sampled_from(CLASSES),
        work_s=st.floats(min_value=0, max_value=10),
        slack_s=st.floats(min_value=-1, max_value=10),
    )
    def come(self, tenant: str, priority: str, work_s: float, slack_s: float) -> None:
        """Somebody begins to wait."""
        waiter = _waiter(tenant, priority, work_s=work_s, slack_s=slack_s, since_s=self.now_s)
        self.order.push(waiter)
        self.waiting.append(waiter)

    @rule(dice=st.randoms(use_true_random=False))
    def leave(self, dice: random.Random) -> None:
        """Somebody waits no more; leaving twice is nothing."""
        if self.waiting:
            waiter = self.waiting.pop(dice.randrange(len(self.waiting)))
            self.order.remove(waiter)
            self.order.remove(waiter)

    @rule(passed_s=st.floats(min_value=0, max_value=4))
    def serve(self, passed_s: float) -> None:
        """Somebody's turn comes: one of those who wait, and of the best class unless somebody has waited too long."""
        self.now_s += passed_s
        waiter = self.order.pop(self.now_s)
        assert (waiter is None) == (not self.waiting)
        if waiter is not None:
            self.waiting.remove(waiter)
            self.order.charge(waiter.tenant, waiter.weight, waiter.tokens)
            fresh = all(self.now_s - one.since_s < 5 for one in (waiter, *self.waiting))
            if fresh and not any(self.now_s > one.since_s for one in self.waiting):
                assert waiter.rank == min(one.rank for one in (waiter, *self.waiting))

    @invariant()
    def heaps_are_bounded(self) -> None:
        """Those who left from the middle are cleared away."""
        for group in self.order._classes:
            assert len(group.turns) <= 2 * len(group.lines) + 9
            assert all(len(line.heap) <= 2 * line.waiting + 9 for line in group.lines.values())
            assert len(group.arrivals) == sum(line.waiting for line in group.lines.values())

    @invariant()
    def counts_are_right(self) -> None:
        """How many wait, and how much work they are."""
        assert len(self.waiting) == len(self.order) == self.order.position(2)
        assert abs(sum(one.work_s for one in self.waiting) - self.order.work_before_s(2)) < 1e-6


TestComings = Comings.TestCase


def test_what_goes_before_a_newcomer_is_what_its_tenant_has_and_the_others_turns_meanwhile() -> None:
    """Not the whole queue of one that floods; and all of the classes above."""
    order = FairOrder(age_s=1000)
    for _ in range(100):
        order.push(_waiter("hog"))
    assert 0.0 == order.work_ahead_s(_waiter("small"))
    order.push(_waiter("small"))
    assert 2.0 == order.work_ahead_s(_waiter("small"))
    assert 101.0 == order.work_ahead_s(_waiter("hog"))
    assert 101.0 == order.work_ahead_s(_waiter("hog", "batch"))
    order.push(_waiter("hog", "interactive"))
    assert 3.0 == order.work_ahead_s(_waiter("small"))


def test_longer_work_of_its_own_is_not_before_a_newcomer() -> None:
    """What is short and urgent overtakes it."""
    order = FairOrder(age_s=1000)
    order.push(_waiter("a", work_s=16.0))
    assert (0.0, 16.0) == (order.work_ahead_s(_waiter("a", work_s=1.0)), order.work_ahead_s(_waiter("a", work_s=64.0)))
