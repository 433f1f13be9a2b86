"""Which of a route's candidates are left alone because they do not get on as the others do: always a minority."""

from collections.abc import Sequence

from msgspec.structs import replace

from gateway.fleet.lane import Lane
from gateway.types import Candidate

_FEWEST = 3
"""Of two nobody can say which is the odd one, and one of them is no minority."""
_TRIAL_WAIT_S = 1.0


def without_outliers(lanes: Sequence[Lane], candidates: tuple[Candidate, ...], now_s: float) -> tuple[Candidate, ...]:
    """The candidates, in the order of their lanes; of outliers it is said why nothing should go there.

    Fewer than half of those that are not down anyway are left alone, the most suspicious first: where most are worse
    than before, something else is.
    """
    if len(lanes) < _FEWEST:
        return candidates
    found = [(at, trouble) for at, lane in enumerate(lanes) if (trouble := _trouble(lane, now_s)) is not None]
    if not found:
        return candidates
    up = [at for at, candidate in enumerate(candidates) if candidate.down is None]
    worst = sorted((out for out in found if out[0] in up), key=lambda out: -lanes[out[0]].standing.progress.suspicion)
    told = list(candidates)
    for at, (words, retry_s) in worst[: (len(up) - 1) // 2]:
        told[at] = replace(told[at], down=words, retry_in_s=retry_s)
    return tuple(told)


def _trouble(lane: Lane, now_s: float) -> tuple[str, float] | None:
    progress, work = lane.standing.progress, lane.standing.work
    if progress.reason:
        rests_s = progress.rests_s(now_s)
        if rests_s > 0:
            return f"left alone: {progress.reason}", rests_s
        return (f"being tried: {progress.reason}", _TRIAL_WAIT_S) if work.in_flight else None
    oldest = work.oldest
    if oldest is None or not oldest.streams:
        return None
    expected_s = oldest.wait_s + oldest.read_s
    silence = progress.silence(now_s, since_s=oldest.dispatched_s, expected_s=expected_s, waiting=work.waiting)
    return (silence, _TRIAL_WAIT_S) if silence else None
