"""How likely it is that a task goes well with a candidate, as learned from the verdicts on earlier tasks."""

from msgspec import Struct


class Success(Struct, frozen=True, kw_only=True, gc=False):
    """The chance that a task succeeds whose requests the candidate answers, 0 to 1.

    ``p`` is what the decision reckons with: the expected chance ``mean``, or where the request explores (``drawn``) one
    drawn from all that it may be. It lies between ``low`` and ``high`` with the confidence that the route asks for.
    ``n`` is how many tasks say so, older ones counting less. ``calls`` is how many requests a task has on this route.
    """

    p: float
    mean: float
    low: float
    high: float
    n: float
    calls: float = 1.0
    drawn: bool = False
