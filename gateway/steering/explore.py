"""Exploring: some tasks go where it may turn out to be better, for as long as a budget pays for it.

Thompson sampling (Thompson, "On the likelihood that one unknown probability exceeds another in view of the evidence
of two samples", Biometrika, 1933): for a task that explores, each candidate's chance is not the expected one but drawn
from all that it may be. Where little is known the draws differ widely and the candidate is tried now and then; where
much is known they do not, and it is not.

The lots are drawn from the names of the task and of the candidate, so the same task draws the same again: in all of its
requests, on every replica and in ``headrace explain``. A request that names no task draws by its own id.

The price of a try is what its choice is expected to cost more than the choice that would have been made, both at the
expected chances: money, seconds and failures alike, since all are in the same currency. It is taken from the budget, a
limit as those of tenants are, before the request goes out. When the budget is used up nobody explores until its next
period.
"""

import logging
from typing import NamedTuple

from gateway.errors import HeadraceError
from gateway.limits.gate import Gate
from gateway.limits.limit import NANO, Claim
from gateway.ports import Clock
from gateway.rules.steer import Explore
from gateway.seldom import Seldom
from gateway.steering.lot import lot

_log = logging.getLogger(__name__)
_LASTS_S = 60.0


class Explored(NamedTuple):
    """How many requests went elsewhere than seemed best, and how much dearer that was expected to be, in all."""

    requests: int
    usd: float


class Explorer:
    """Says whose turn it is and pays for it. Without a ``gate`` there is no budget, and nobody explores."""

    def __init__(self, gate: Gate | None, clock: Clock) -> None:
        self._gate = gate
        self._clock = clock
        self._shut_until_s: dict[str, float] = {}
        self._complain = Seldom(_log)

    def turn(self, route: str, explore: Explore, key: str) -> bool:
        """Whether the task of that name explores."""
        if self._gate is None or self._clock.unix_s() < self._shut_until_s.get(route, 0.0):
            return False
        return lot("explore", route, key) < explore.share

    async def pay(self, route: str, explore: Explore, *, request_id: str, usd: float) -> bool:
        """Takes the price of a try from the budget; whether it could."""
        if self._gate is None:
            return False
        claim = Claim(nano_usd=max(-int(-usd * NANO // 1), 0))
        name = f"{request_id}/explore"
        try:
            await self._gate.enter(name, (explore.budget,), claim, lasts_s=_LASTS_S)
        except HeadraceError as error:
            # A refusal may be one of this try alone, but the next costs about as much; and it may be lost accounts.
            retry_s = error.retry_after_s or _LASTS_S
            self._shut_until_s[route] = self._clock.unix_s() + retry_s
            self._complain(
                "route %s explores no more for %.0f s: its budget is used, or cannot be asked", route, retry_s
            )
            return False
        self._gate.leave(name, claim)
        return True
