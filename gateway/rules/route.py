"""A route as it runs: which model names it answers, where it may go, and the policies that decide."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gateway.admission import Admitter
from gateway.forecast import Forecast
from gateway.limits.limit import Limit
from gateway.ports import BatchScorer, Classifier, Dropper, Filter, Ranker, Scorer
from gateway.price import Price
from gateway.rules.caching import Caching
from gateway.rules.guards import Guards
from gateway.rules.judging import Judging
from gateway.rules.name_pattern import name_pattern
from gateway.rules.steer import Steer
from gateway.task import TaskRule
from gateway.types import Arrival, Candidate, ChatRequest, Context
from gateway.wire.passed_forecast import foreseen
from gateway.worth import Deadline, Worth

Term = Callable[[Context, Sequence[Candidate]], Sequence[float]]
"""A term of the bill, for all candidates: ``gateway.ports.BatchScorer.usd_each``."""


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
    """How long an answer may take, in seconds: to its first token, between two pieces, and as a whole.

    For ``client_s`` a client may leave what it was sent unread, and hold a backend's place with it.
    """

    first_token_s: float
    idle_s: float
    total_s: float
    client_s: float = 60.0


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
    """A compiled route. Filters and scorers keep the names under which the policy file has them.

    Where there is a ``cascade``, ``targets`` are those of all its steps, in their order.

    ``assumed_price`` is what a model is taken to cost of which no price is known; ``None`` where nothing is assumed.
    ``term_names`` and ``terms`` are those of the scorers, in their order, ``terms_of_one`` for a single candidate.
    """

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
    task: TaskRule | None = None
    resume: bool = False
    steer: Steer | None = None
    judging: Judging | None = None
    cascade: "tuple[CascadeStep, ...]" = ()
    shadow: "Shadow | None" = None
    assumed_price: Price | None = None
    spill: "Spill | None" = None
    cache: Caching | None = None
    guards: Guards | None = None
    term_names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    terms: tuple[Term, ...] = field(init=False, repr=False, compare=False)
    terms_of_one: tuple[Callable[[Context, Candidate], float], ...] = field(init=False, repr=False, compare=False)
    _match: tuple[Callable[[str], object], ...] = field(init=False, repr=False, compare=False)
    _droppers: tuple[Dropper, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_match", tuple(name_pattern(pattern).fullmatch for pattern in self.models))
        droppers = tuple(policy for _, policy in self.filters if isinstance(policy, Dropper))
        object.__setattr__(self, "_droppers", droppers)
        object.__setattr__(self, "term_names", tuple(name for name, _ in self.scorers))
        object.__setattr__(self, "terms", tuple(_term(scorer) for _, scorer in self.scorers))
        object.__setattr__(self, "terms_of_one", tuple(scorer.usd for _, scorer in self.scorers))

    @property
    def longest_s(self) -> float:
        """How long a request may be here in all: in the queue, elsewhere where it spills over, and then at home."""
        wait_s = float(getattr(self.admitter, "wait_s", 0.0))
        return wait_s + self.patience.total_s * (1 if self.spill is None else 2)

    @property
    def watched(self) -> bool:
        """Whether its answers are judged, before or after they are served, or its requests copied."""
        return self.judging is not None or self.cascade != () or self.shadow is not None

    def forecast(self, request: ChatRequest) -> Forecast:
        """What a request will weigh: by the route's classifier, or by its units where no text is written."""
        return self.classifier.forecast(request) if request.units is None else foreseen(request, request.units)

    def context(self, request: ChatRequest, forecast: Forecast, *, priced_only: bool = False) -> Context:
        """All that the policies of this route may look at."""
        return Context(
            request=request,
            forecast=forecast,
            worth=self.worth,
            deadline=self.deadline_of(request.arrival),
            priced_only=priced_only,
        )

    def dropped(self, ctx: Context, candidate: Candidate) -> tuple[str, ...]:
        """What the request loses on its way to a candidate, by leave of the route's filters."""
        names: tuple[str, ...] = ()
        for dropper in self._droppers:
            names += dropper.drops(ctx, candidate)
        return names

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
        for matches in self._match:  # noqa: SIM110  # each request asks: a generator takes three times as long
            if matches(model):
                return True
        return False


def _term(scorer: Scorer) -> Term:
    """The term as a function that bills all candidates in one go, whether the scorer does so or not."""
    if isinstance(scorer, BatchScorer):
        return scorer.usd_each
    return lambda ctx, candidates: [scorer.usd(ctx, candidate) for candidate in candidates]


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeStep:
    """A step of a cascade: the ``route`` with this step's targets alone, and who judges what they answer.

    Its ``attempts`` are those that there may have been at its end, so that one is left for each step after it. The last
    step has no judges, and its answer goes out as it comes. Of the others an answer is held until it is judged, up to
    ``max_held_bytes``; where nobody can say it goes out if the step ``serves_unsure``. The step may take ``timeout_s``,
    an even share of the time that is left where it is ``None``. A stream that is held is kept alive with a comment
    every ``keep_alive_s``.
    """

    route: Route
    judging: Judging | None
    serves_unsure: bool
    timeout_s: float | None
    keep_alive_s: float | None
    max_held_bytes: int

    def asks(self, backend: str, model: str) -> bool:
        """Whether a candidate is one of this step's."""
        return any(one.backend == backend and one.model in {None, model} for one in self.route.targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadow:
    """Who gets a copy of ``share`` of the requests, 0 to 1, while ``budget`` pays: the ``route`` with one target.

    At most ``concurrency`` copies are under way at once, and none is sent while the machine's load is above
    ``most_load`` for each of its cores.
    """

    route: Route
    judging: Judging | None
    share: float
    budget: Limit
    concurrency: int
    most_load: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spill:
    """Where requests go that would wait at home for more than ``after_s`` or be late: the ``route`` with those targets.

    What it costs in all is bounded by ``budget``, a limit like others.
    """

    route: Route
    budget: Limit
    after_s: float
