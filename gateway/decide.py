"""The decision: candidates in, an order with its bills out. Pure, so that ``headrace explain`` runs the very same."""

from gateway.errors import HeadraceError, NoCandidate
from gateway.route import Route
from gateway.types import Bill, Candidate, Context, Decision, Exclusion

_UNKNOWN_WAIT_S = 5.0
"""When to come back where no backend says when it is well again."""


def decide(route: Route, ctx: Context, candidates: tuple[Candidate, ...]) -> Decision:
    """Filters the candidates, bills the rest term by term, and orders them.

    The first filter that objects speaks for a candidate. ``order`` may come out empty: see ``refusal``.
    """
    bills: list[Bill] = []
    excluded: list[Exclusion] = []
    for candidate in candidates:
        objection = _objection(route, ctx, candidate)
        if objection is None:
            bills.append(_bill(route, ctx, candidate))
        else:
            excluded.append(objection)
    return Decision(order=route.ranker.order(ctx, tuple(bills)), excluded=tuple(excluded))


def refusal(route: Route, decision: Decision) -> HeadraceError:
    """What the client is told when nobody is left.

    Where every exclusion blames the request, waiting cannot help: the client gets that filter's own error, with its
    reason. Otherwise it may come back when the first backend that could serve it is expected to be well again.
    """
    refusals = {name: policy.refusal for name, policy in route.filters}
    blaming = [(kind, out) for out in decision.excluded if (kind := refusals[out.filter]) is not None]
    waiting = [out for out in decision.excluded if refusals[out.filter] is None]
    if blaming and not waiting:
        kind, exclusion = blaming[0]
        return kind(f"{exclusion.candidate.model} {exclusion.reason}")
    reasons = "; ".join(f"{out.candidate.backend}: {out.reason}" for out in decision.excluded)
    waits_s = [out.candidate.retry_in_s for out in waiting if out.candidate.retry_in_s is not None]
    return NoCandidate(
        f"no backend can take this now ({reasons or 'the route has no target'})",
        retry_after_s=min(waits_s, default=_UNKNOWN_WAIT_S),
    )


def _objection(route: Route, ctx: Context, candidate: Candidate) -> Exclusion | None:
    for name, policy in route.filters:
        reason = policy.exclude(ctx, candidate)
        if reason is not None:
            return Exclusion(candidate=candidate, filter=name, reason=reason)
    return None


def _bill(route: Route, ctx: Context, candidate: Candidate) -> Bill:
    terms = tuple([(name, scorer.usd(ctx, candidate)) for name, scorer in route.scorers])
    return Bill(candidate=candidate, terms=terms, total_usd=sum([usd for _, usd in terms]))
