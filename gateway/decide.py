"""The decision: candidates in, an order with its bills out. Pure, so that ``headrace explain`` runs the very same."""

from gateway.errors import ClientError, HeadraceError, NoCandidate
from gateway.route import Route
from gateway.types import Bill, Candidate, Context, Decision, Exclusion


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
    reason. Otherwise it may come back when the first excluded backend is expected to be well again.
    """
    filters = dict(route.filters)
    blamed = [filters[exclusion.filter].refusal for exclusion in decision.excluded]
    for kind, exclusion in zip(blamed, decision.excluded, strict=True):
        if kind is not None and all(blamed):
            return _client_error(kind, exclusion)
    waits = [e.candidate.retry_in_s for e in decision.excluded if e.candidate.retry_in_s is not None]
    reasons = "; ".join(f"{e.candidate.backend}: {e.reason}" for e in decision.excluded)
    return NoCandidate(
        f"no backend can take this now ({reasons or 'the route has no target'})", retry_after_s=min(waits, default=5.0)
    )


def _client_error(kind: type[ClientError], exclusion: Exclusion) -> ClientError:
    return kind(f"{exclusion.candidate.model} {exclusion.reason}")


def _objection(route: Route, ctx: Context, candidate: Candidate) -> Exclusion | None:
    for name, policy in route.filters:
        reason = policy.exclude(ctx, candidate)
        if reason is not None:
            return Exclusion(candidate=candidate, filter=name, reason=reason)
    return None


def _bill(route: Route, ctx: Context, candidate: Candidate) -> Bill:
    terms = tuple((name, scorer.usd(ctx, candidate)) for name, scorer in route.scorers)
    return Bill(candidate=candidate, terms=terms, total_usd=sum(usd for _, usd in terms))
