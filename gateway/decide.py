"""The decision: candidates in, an order with its bills out. Pure, so that ``headrace explain`` runs the very same."""

from itertools import repeat
from typing import cast

from gateway.errors import HeadraceError, NoCandidate
from gateway.ports import Scorer
from gateway.route import Route
from gateway.types import Bill, Candidate, Context, Decision, Exclusion

_UNKNOWN_WAIT_S = 5.0
"""When to come back where no backend says when it is well again."""


def decide(route: Route, ctx: Context, candidates: tuple[Candidate, ...]) -> Decision:
    """Filters the candidates, bills the rest term by term, and orders them.

    The first filter that objects speaks for a candidate. ``order`` may come out empty: see ``refusal``.
    """
    eligible: list[Candidate] = []
    excluded: list[Exclusion] = []
    filters = route.filters
    for candidate in candidates:
        for name, policy in filters:
            reason = policy.exclude(ctx, candidate)
            if reason is not None:
                excluded.append(Exclusion(candidate=candidate, filter=name, reason=reason))
                break
        else:
            eligible.append(candidate)
    order = route.ranker.order(ctx, _bills(route, ctx, eligible))
    return Decision(order=order, excluded=tuple(excluded), ctx=ctx)


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


def _bills(route: Route, ctx: Context, candidates: list[Candidate]) -> tuple[Bill, ...]:
    """One bill a candidate, made column by column: a term bills all of them in one go where it can."""
    if not route.scorers:
        return tuple([Bill(candidate=candidate, terms=(), total_usd=0.0) for candidate in candidates])
    columns = [_column(scorer, ctx, candidates) for _, scorer in route.scorers]
    named = [zip(repeat(name), column, strict=False) for (name, _), column in zip(route.scorers, columns, strict=True)]
    rows = zip(candidates, zip(*named, strict=True), map(sum, zip(*columns, strict=True)), strict=True)
    return tuple([Bill(candidate=candidate, terms=terms, total_usd=total) for candidate, terms, total in rows])


def _column(scorer: Scorer, ctx: Context, candidates: list[Candidate]) -> list[float]:
    each = getattr(scorer, "usd_each", None)
    if each is not None:
        return cast("list[float]", each(ctx, candidates))
    return [scorer.usd(ctx, candidate) for candidate in candidates]
