from collections.abc import Callable
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.decide import decide, refusal
from gateway.errors import (
    ContextLengthExceeded,
    NoCandidate,
    Unsupported,
    UpstreamError,
    UpstreamOutOfFunds,
    UpstreamUnauthorised,
)
from gateway.fleet.cooling import rest_after
from gateway.rules.route import Route
from gateway.rules.world import World
from gateway.types import Candidate, ChatRequest, Context, Operation

POLICY = """
    backends: {a: {use: fake}}
    routes:
      r:
        models: ["*"]
        targets: [a]
        filter: [capable, fits_context, healthy]
        cost: [money, risk]
"""

EVERY_COST = "[money, waiting, prefill, decoding, risk, deadline, leaving]"


@pytest.fixture(scope="session")
def route(make_world: Callable[..., World]) -> Route:
    """A route with real policies."""
    return make_world(POLICY).routes[0]


@pytest.fixture(scope="session")
def make_kind(make_candidate: Callable[..., Candidate]) -> Callable[..., Candidate]:
    """Candidates by what is the matter with them."""
    faults = {
        "well": {},
        "short": {"context_tokens": 10},
        "unable": {"operations": frozenset({Operation.COMPLETION})},
        "cooling": {"down": "cooling after upstream_failed", "retry_in_s": 7.0},
        "starting": {"down": "starting"},
    }
    return lambda kind, number=0, **fields: make_candidate(backend=f"{kind}-{number}", **{**faults[kind], **fields})


def test_every_candidate_is_billed_or_excluded(
    route: Route, make_kind: Callable[..., Candidate], make_context: Callable[..., Context]
) -> None:
    """Nobody gets lost: who is not out has a bill with one line per cost, under the names of the file."""
    decision = decide(route, make_context(), (make_kind("well"), make_kind("short"), make_kind("cooling")))
    (bill,) = decision.order
    assert ("well-0", ("money", "risk")) == (bill.candidate.backend, tuple(name for name, _ in bill.terms))
    assert sum(usd for _, usd in bill.terms) == bill.total_usd
    assert [("short-0", "fits_context"), ("cooling-0", "healthy")] == [
        (out.candidate.backend, out.filter) for out in decision.excluded
    ]


def test_a_candidate_alone_is_billed_as_among_others(
    make_world: Callable[..., World], make_kind: Callable[..., Candidate], make_context: Callable[..., Context]
) -> None:
    """It is billed term by term, and not in a column of one: the same figures, under the same names."""
    (route,) = make_world(POLICY.replace("[money, risk]", EVERY_COST)).routes
    ctx, one, other = make_context(), make_kind("well", warm_tokens=3), make_kind("well", 1, warm_elsewhere_tokens=9)
    among_others = {bill.candidate.backend: bill for bill in decide(route, ctx, (one, other)).order}
    assert 2 == len(among_others)
    for candidate in (one, other):
        assert (among_others[candidate.backend],) == decide(route, ctx, (candidate,)).order


def test_the_first_filter_that_objects_speaks(
    route: Route, make_kind: Callable[..., Candidate], make_context: Callable[..., Context]
) -> None:
    """A candidate with several faults is excluded once, by the first filter in the order of the file."""
    decision = decide(route, make_context(), (make_kind("short", down="starting"),))
    assert ["fits_context"] == [out.filter for out in decision.excluded]


@given(kinds=st.lists(st.sampled_from(["well", "short", "unable", "cooling", "starting"]), max_size=5))
def test_the_order_of_the_candidates_decides_nothing(
    route: Route, make_kind: Callable[..., Candidate], make_context: Callable[..., Context], kinds: list[str]
) -> None:
    """The same facts in another order give the same bills in the same order and the same exclusions."""
    ctx = make_context()
    candidates = tuple(make_kind(kind, number) for number, kind in enumerate(kinds))
    decision = decide(route, ctx, candidates)
    assert decision == decide(route, ctx, candidates)
    backwards = decide(route, ctx, candidates[::-1])
    assert decision.order == backwards.order
    assert decision.excluded == backwards.excluded[::-1]


def test_where_every_exclusion_blames_the_request_the_client_is_told_why(
    route: Route, make_kind: Callable[..., Candidate], make_context: Callable[..., Context]
) -> None:
    """Waiting cannot help it: it gets the filter's own error, with the numbers and the model."""
    error = refusal(route, decide(route, make_context(prompt_tokens=1000), (make_kind("short"),)))
    assert isinstance(error, ContextLengthExceeded)
    assert (400, "small needs about 1001 tokens of 10") == (error.http_status, error.message)


def test_of_several_faults_of_the_request_the_first_backends_is_told(
    route: Route, make_kind: Callable[..., Candidate], make_context: Callable[..., Context]
) -> None:
    """Any of them would do; the order of the file makes it the same one every time."""
    error = refusal(route, decide(route, make_context(), (make_kind("unable"), make_kind("short"))))
    assert isinstance(error, Unsupported)
    assert error.message.endswith("does not serve `chat`: ask for another model")


def test_where_one_backend_is_only_unwell_coming_back_may_help(
    route: Route, make_kind: Callable[..., Candidate], make_context: Callable[..., Context]
) -> None:
    """One exclusion that does not blame the request makes it a matter of time, whatever the order."""
    for candidates in permutations((make_kind("short"), make_kind("cooling"), make_kind("unable"))):
        error = refusal(route, decide(route, make_context(), candidates))
        assert isinstance(error, NoCandidate)
        assert (503, 7.0) == (error.http_status, error.retry_after_s)
        assert "cooling-0: cooling after upstream_failed" in error.message


def test_the_soonest_of_those_that_could_serve_it_says_when(
    route: Route, make_kind: Callable[..., Candidate], make_context: Callable[..., Context]
) -> None:
    """A backend that can never take the request has no say in when to come back."""
    candidates = (
        make_kind("cooling", 1, retry_in_s=30.0),
        make_kind("cooling", 2, retry_in_s=20.0),
        make_kind("short", down="cooling", retry_in_s=1.0),
        make_kind("starting"),
    )
    assert 20.0 == refusal(route, decide(route, make_context(), candidates)).retry_after_s


@pytest.mark.parametrize("kind", [UpstreamUnauthorised, UpstreamOutOfFunds])
def test_where_only_people_can_mend_it_asking_again_is_no_use(
    route: Route, make_kind: Callable[..., Candidate], make_context: Callable[..., Context], kind: type[UpstreamError]
) -> None:
    """A refused key is not well again because time has passed; another backend's rest has an end that helps."""
    refused = make_kind("cooling", 1, down=rest_after(kind), retry_in_s=3.0)
    alone = refusal(route, decide(route, make_context(), (refused, make_kind("short"))))
    assert (True, 3.0) == (alone.final, alone.retry_after_s)
    for other in ("cooling", "starting"):
        beside = refusal(route, decide(route, make_context(), (refused, make_kind(other))))
        assert (False, 7.0 if other == "cooling" else 5.0) == (beside.final, beside.retry_after_s)


def test_where_no_backend_says_when_there_is_a_time_all_the_same(
    route: Route, make_kind: Callable[..., Candidate], make_context: Callable[..., Context]
) -> None:
    """A client that is told to come back is told when."""
    assert 5.0 == refusal(route, decide(route, make_context(), (make_kind("starting"),))).retry_after_s
    assert "no target" in refusal(route, decide(route, make_context(), ())).message


def test_a_refusal_names_the_field_at_fault(
    route: Route,
    make_kind: Callable[..., Candidate],
    make_context: Callable[..., Context],
    make_request: Callable[..., ChatRequest],
) -> None:
    """What is too long, and what nobody carries, is named as clients read it: in ``param``."""
    ctx = make_context(make_request("hello", raw={"messages": b"[]", "seed": b"1"}))
    too_long = refusal(route, decide(route, ctx, (make_kind("short"),)))
    unknown = refusal(route, decide(route, ctx, (make_kind("well", carries=frozenset({"messages"})),)))
    assert [(ContextLengthExceeded, "messages"), (Unsupported, "seed")] == [
        (type(error), error.param) for error in (too_long, unknown)
    ]
    assert "small takes no `seed`: leave that out, or ask for another model" == unknown.message
