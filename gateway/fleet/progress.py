"""Whether a backend gets on: first tokens against what was expected of it, streams that stall, and plain silence.

Completions come too late for that, and a backend that accepts and produces nothing has none. The signal is the ratio of
how late a first token was to how late it was expected, on a logarithmic scale and in units of the spread that all
backends for the same model show.
"""

from math import log

_UNSEEN_S = 0.5
"""Added to both times: what is less than this is nobody's slowness, but the way there."""
_LEAST_SPREAD = log(1.25)
_Z_P90 = 1.2816
_TOLERATED = 1.25
_MOST = 4.0
_ALARM = 9.0
"""The sum of surprises (each less 1.25, none more than 4) that takes a backend out: four in a row that are extreme."""
_WELL = 2.0
_KNOWN_AFTER = 20
"""So many first tokens of the model must have been seen anywhere before any is held against a backend."""
_SHORTEST_REST_S, _LONGEST_REST_S = 5.0, 60.0
_REASON = "it does not get on"
_STEP = 0.05
_FARTHEST = 3.0
_SILENT_S = 3.0
_SILENT_SPREADS = 6.0


class Expectations:
    """How first tokens of one model come at all its backends, beside what was expected: median and spread.

    Running quantiles of the logarithm of the ratio, in steps of 5 % (Robbins and Monro, 1951).
    """

    __slots__ = ("_p50", "_p90", "_spread", "seen")

    def __init__(self) -> None:
        self.seen = 0
        self._p50, self._p90 = 0.0, log(2.0)
        self._spread = self._p90 / _Z_P90

    def surprise(self, expected_s: float, actual_s: float) -> float:
        """By how many spreads it is later than usual, for what was expected."""
        return (log((actual_s + _UNSEEN_S) / (expected_s + _UNSEEN_S)) - self._p50) / self._spread

    def learn(self, surprise: float) -> None:
        """A first token came, and was such a surprise."""
        late = min(max(self._p50 + surprise * self._spread, -_FARTHEST), _FARTHEST)
        self.seen += 1
        self._p50 += _STEP * (0.5 - (late <= self._p50))
        self._p90 += _STEP * (0.9 - (late <= self._p90))
        self._spread = max(self._p90 - self._p50, _LEAST_SPREAD) / _Z_P90


class Progress:
    """One backend's record for a model. ``suspicion`` is 0 for one that gets on; ``reason`` says why one is taken out.

    Page's cumulated sum (1954) of the surprises. Requests that wait side by side are late of one cause: what makes the
    sum larger must have been sent off after what did so before. One that is taken out rests, twice as long each time,
    and is tried by one attempt then.
    """

    __slots__ = (
        "_common",
        "_raised_s",
        "_rest_s",
        "_rests_until_s",
        "_sign_s",
        "reason",
        "suspicion",
    )

    def __init__(self, common: Expectations) -> None:
        self.suspicion = 0.0
        self.reason = ""
        self._common = common
        self._raised_s = -float("inf")
        self._sign_s = -float("inf")
        self._rest_s = _SHORTEST_REST_S
        self._rests_until_s = -float("inf")

    def first_token(self, *, expected_s: float, actual_s: float, now_s: float) -> None:
        """A first token came ``actual_s`` after its dispatch, where ``expected_s`` were expected."""
        self._sign_s = now_s
        common = self._common
        surprise = common.surprise(expected_s, actual_s)
        common.learn(surprise)
        if common.seen >= _KNOWN_AFTER and (surprise > _TOLERATED or self.suspicion or self.reason):
            self._judge(surprise, now_s - actual_s, now_s)
            if self.reason:
                times = (actual_s + _UNSEEN_S) / (expected_s + _UNSEEN_S)
                self.reason = f"first tokens come {times:.1f} times as late as expected"

    def stalled(self, *, dispatched_s: float, now_s: float) -> None:
        """It was waited for in vain: for a first token, or in the middle of a stream."""
        self._judge(_MOST, dispatched_s, now_s)
        if self.reason:
            self.reason = "answers stall"

    def begin_anew(self, now_s: float) -> None:
        """The backend is another one than before: what was sent to the old one says nothing of it."""
        self.suspicion, self.reason, self._rest_s, self._raised_s = 0.0, "", _SHORTEST_REST_S, now_s

    def rests_s(self, now_s: float) -> float:
        """For how long it is left alone yet; 0 from when it may be tried on."""
        return max(self._rests_until_s - now_s, 0.0)

    def silence(self, now_s: float, *, since_s: float, expected_s: float, waiting: int) -> str:
        """What is to be said of one at which several wait for a first token while none has come for far too long.

        Args:
            now_s: now.
            since_s: when the one that waits longest was sent off.
            expected_s: how long its prompt takes to read.
            waiting: how many wait.
        """
        silent_s = now_s - max(since_s, self._sign_s)
        if waiting < 2 or silent_s < _SILENT_S or self._common.seen < _KNOWN_AFTER:  # noqa: PLR2004  # one may be odd
            return ""
        if self._common.surprise(expected_s, silent_s) < _SILENT_SPREADS:
            return ""
        return f"{waiting} requests wait, and no first token has come for {silent_s:.0f} s"

    def _judge(self, surprise: float, dispatched_s: float, now_s: float) -> None:
        if self.reason:
            self._judge_again(surprise, dispatched_s, now_s)
            return
        step = min(surprise, _MOST) - _TOLERATED
        if step > 0:
            if dispatched_s < self._raised_s:
                return
            self._raised_s = now_s
        self.suspicion = max(self.suspicion + step, 0.0)
        if self.suspicion >= _ALARM:
            self._rest(now_s)

    def _judge_again(self, surprise: float, dispatched_s: float, now_s: float) -> None:
        """One that was taken out is judged by what was sent there since."""
        if dispatched_s < self._raised_s:
            return
        if surprise < _WELL:
            self.suspicion, self.reason, self._rest_s = 0.0, "", _SHORTEST_REST_S
            return
        self._rest_s = min(2 * self._rest_s, _LONGEST_REST_S)
        self._rest(now_s)

    def _rest(self, now_s: float) -> None:
        self.reason = self.reason or _REASON
        self._raised_s, self._rests_until_s = now_s, now_s + self._rest_s
