"""How many answers a second are learned from, so that learning costs next to nothing where answers are many."""

LESSONS_PER_S = 25.0
"""Of one model's answers to one tenant: 90,000 an hour. One more of the same second teaches little, and costs what the
first did."""

FIRST_LESSONS = 200.0
"""At once, when there was nothing for a while."""


class LessonPace:
    """Lets so many answers a second be learned from, and after a quiet time some hundreds at once.

    Who comes when there is no room is passed over, whatever it says: which ones these are depends on the moment alone.
    """

    __slots__ = ("_last_s", "_left")

    def __init__(self) -> None:
        self._left = FIRST_LESSONS
        self._last_s = 0.0

    def takes(self, now_s: float) -> bool:
        """Whether to learn from an answer that ended at ``now_s``, on a clock of any origin."""
        self._left = min(self._left + max(now_s - self._last_s, 0.0) * LESSONS_PER_S, FIRST_LESSONS)
        self._last_s = max(now_s, self._last_s)
        if self._left < 1:
            return False
        self._left -= 1
        return True
