"""When a backend rests after failures, for how long, and how it is tried again: by one attempt at a time."""

from collections.abc import Callable

from gateway.errors import HeadraceError, UpstreamError, UpstreamOutOfFunds, UpstreamUnauthorised
from gateway.fleet.standing import Standing
from gateway.ports import Shared

_LONGEST_COOL_S = 60.0
_TOLERATED_FAILURES = 2
_TRIAL_WAIT_S = 1.0
"""When to come back while one attempt finds out whether the backend is well again."""


class Cooling:
    """The rests of all backends; ``shared`` lets the replicas of a gateway know of each other's.

    ``resting`` tells why what has this ``cooling_key`` rests, and for how many seconds more.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.resting: Callable[[str], tuple[str, float] | None] = shared.get

    def rests(self, backend: str, model: str) -> tuple[str, float] | None:
        """Why the model rests there and for how many seconds more, or ``None``."""
        return self._shared.get(cooling_key(backend, model))

    def probed(self, standing: Standing) -> tuple[str, float] | None:
        """Whether an attempt is finding out already if the backend is well again, and when to come back then."""
        if standing.probing and standing.failures_in_a_row > _TOLERATED_FAILURES:
            return "being tried after failures", _TRIAL_WAIT_S
        return None

    def probes(self, standing: Standing) -> bool:
        """Whether an attempt that is sent there now is the one that tries it after failures."""
        return standing.failures_in_a_row > _TOLERATED_FAILURES

    def judge(
        self, backend: str, standing: Standing, error: HeadraceError | None, *, dispatched_s: float, now_s: float
    ) -> int:
        """Takes an ended attempt into the backend's record, and cools it where the error asks for that.

        A client's own error, a hang-up and our own bugs say nothing about a backend, nor does one of several keys.

        Returns:
            1 for a success, -1 for a failure of the backend, 0 for what says nothing.
        """
        if error is None:
            standing.succeeded(now_s)
            return 1
        if not error.blames_backend or (isinstance(error, UpstreamError) and error.another_key):
            return 0
        goes_on = standing.failed(dispatched_s=dispatched_s, now_s=now_s)
        cool_s = _cool_s(error, standing.failures_in_a_row if goes_on else 0)
        resting = self.rests(backend, standing.model)
        if cool_s > (resting[1] if resting else 0.0):
            self._shared.put(cooling_key(backend, standing.model), rest_after(error), cool_s)
        return -1

    def begin_anew(self, backend: str, model: str) -> None:
        """The backend is another one than before, and has done nothing wrong."""
        self._shared.put(cooling_key(backend, model), "", 0)


def rest_after(error: HeadraceError | type[HeadraceError]) -> str:
    """Why a backend rests that has failed so."""
    return f"cooling after {error.code}"


FOR_PEOPLE = frozenset(map(rest_after, (UpstreamUnauthorised, UpstreamOutOfFunds)))
"""Why those rest that only people can make well again: their time says when they are looked at again, and no more."""


def cooling_key(backend: str, model: str) -> str:
    """Under which name the rest of a backend's model is kept."""
    return f"cooling/{backend}/{model}"


def _cool_s(error: HeadraceError, failures_in_a_row: int) -> float:
    """How long a backend rests: what it asked for, else longer with every failure in a row. Slowness has no haste."""
    back_off_s = 0.0
    if failures_in_a_row > _TOLERATED_FAILURES:
        back_off_s = min(2.0 ** (failures_in_a_row - _TOLERATED_FAILURES - 1), _LONGEST_COOL_S)
    asked_s = error.rest_s if error.retry_after_s is None else error.retry_after_s
    return max(asked_s, back_off_s)
