"""A task: the requests that belong to one piece of work, what it may take, and whether it was done well.

Everything here is inside one tenant: the same id of another tenant is another task.
"""

from decimal import Decimal
from typing import Protocol, runtime_checkable

from msgspec import Struct

from gateway.forecast import RequestKind

CLIENT = "client"
"""The source of a verdict that the client itself gave; any other is the name of a judge."""


class TaskBudget(Struct, frozen=True, kw_only=True, gc=False):
    """What a task may take over all its requests; ``None`` for any amount. ``steps`` are requests."""

    usd: Decimal | None = None
    tokens: int | None = None
    seconds: float | None = None
    steps: int | None = None


class TaskRule(Struct, frozen=True, kw_only=True, gc=False):
    """A budget of the policy file, and the route on which requests beyond it go on; without one they are refused."""

    budget: TaskBudget
    otherwise: str = ""


class Task(Struct, frozen=True, kw_only=True, gc=False):
    """The task that a request says it belongs to.

    ``named_by`` is where the id stood: ``header``, ``baggage``, ``metadata`` or ``session``. ``budget`` is what the
    client's own header allows, which can only lower what the policy file does.
    """

    id: str
    stage: str = ""
    named_by: str = "header"
    budget: TaskBudget | None = None


class JudgedRequest(Struct, frozen=True, kw_only=True, gc=False):
    """One request of a task that was judged. ``backend`` and ``model`` are those of its last attempt.

    ``answered`` tells whether its client got a whole answer; ``cost_usd`` is over all attempts, ``None`` where a price
    is unknown; ``kind`` is ``None`` where it was refused before it was forecast; ``received_unix_s`` is when it came.
    An answer that is not ``shown`` was judged and kept from the client: of a cascade's step, or of a shadow.
    """

    id: str
    route: str
    backend: str
    model: str
    answered: bool
    kind: RequestKind | None = None
    cost_usd: Decimal | None = None
    received_unix_s: float = 0.0
    shown: bool = True


class Verdict(Struct, frozen=True, kw_only=True, gc=False):
    """Whether task ``task`` of ``tenant`` succeeded; ``success`` is ``None`` where nobody can tell, or takes it back.

    ``task`` is the request's own id where a judge looked at a request that names no task. ``requests`` are those known
    when the verdict came, in the order of their arrival: none where it came before them. Verdicts may be repeated and
    revised: ``revises`` tells that this source had judged the task before, and ``earlier`` what it had said, so that
    who adds up can take that out again. ``score`` is the client's own scale, ``at_unix_s`` when it was judged.
    """

    tenant: str
    task: str
    success: bool | None
    source: str = CLIENT
    score: float | None = None
    at_unix_s: float = 0.0
    revises: bool = False
    earlier: bool | None = None
    requests: tuple[JudgedRequest, ...] = ()


@runtime_checkable
class VerdictObserver(Protocol):
    """An observer of entries that learns from whether tasks succeeded, too."""

    def judged(self, verdict: Verdict) -> None:
        """Takes one verdict into account, the first or a revised one. On the event loop: quick, no I/O, no raise."""
        ...
