"""A route as it runs: which model names it answers, where it may go, and the policies that decide."""

from dataclasses import dataclass

from gateway.admission import Admitter
from gateway.forecast import Forecast
from gateway.ports import Classifier, Filter, Ranker, Scorer
from gateway.rules.name_pattern import name_pattern
from gateway.rules.steer import Steer
from gateway.types import Arrival, ChatRequest, Context
from gateway.worth import Deadline, Worth


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A place to go: a backend, and the model's name there; ``None`` leaves the choice to the request.

    One that drains finishes what it has and gets nothing new. A canary is tried by a share of the tasks.
    """

    backend: str
    model: str | None
    drain: bool = False
    canary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long an answer may take, in seconds: to its first token, between two pieces, and as a whole."""

    first_token_s: float
    idle_s: float
    total_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hedge:
    """When a second backend is asked as well: where the first token is later than so many of a hundred are.

    Of a hundred requests ``most_requests`` may be asked twice, for ``most_spend`` of what all of them cost; both are
    shares, 0 to 1.
    """

    quantile: float
    most_requests: float
    most_spend: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A compiled route. Filters and scorers keep the names under which the policy file has them."""

    name: str
    models: tuple[str, ...]
    targets: tuple[Target, ...]
    classifier: Classifier
    admitter: Admitter
    filters: tuple[tuple[str, Filter], ...]
    scorers: tuple[tuple[str, Scorer], ...]
    ranker: Ranker
    worth: Worth
    patience: Patience
    attempts: int
    deadline: Deadline | None = None
    hedge: Hedge | None = None
    steer: Steer | None = None

    def context(self, request: ChatRequest, forecast: Forecast) -> Context:
        """All that the policies of this route may look at."""
        deadline = self.deadline_of(request.arrival)
        return Context(request=request, forecast=forecast, worth=self.worth, deadline=deadline)

    def deadline_of(self, arrival: Arrival) -> Deadline | None:
        """By when the answer to a request is of use: as the route says, or as the client does where that is sooner."""
        if arrival.deadline_s is None:
            return self.deadline
        if self.deadline is None:
            return Deadline(total_s=arrival.deadline_s)
        total_s = self.deadline.total_s
        soonest_s = arrival.deadline_s if total_s is None else min(total_s, arrival.deadline_s)
        return Deadline(first_token_s=self.deadline.first_token_s, total_s=soonest_s)

    def answers(self, model: str) -> bool:
        """Whether a request for ``model`` belongs to this route."""
        return any(name_pattern(pattern).fullmatch(model) for pattern in self.models)
