"""The decision: candidates in, an order with its bills out. Pure, so that ``headrace explain`` runs the very same."""

from collections.abc import Sequence
from itertools import repeat

from gateway.errors import ClientError, HeadraceError, NoCandidate, Unsupported
from gateway.fleet.cooling import FOR_PEOPLE
from gateway.rules.route import CascadeStep, Route
from gateway.types import Bill, Candidate, Context, Decision, Exclusion, Objection

_UNKNOWN_WAIT_S = 5.0
"""When to come back where no backend says when it is well again."""

_LIMITS = "limits"
"""In a filter's place: what the request's own limits keep it from."""


def decide(route: Route, ctx: Context, candidates: tuple[Candidate, ...]) -> Decision:
    """Filters the candidates, bills the rest term by term, and orders them.

    The first filter that objects speaks for a candidate, after the request's limits. ``order`` may come out empty: see
    ``refusal``.
    """
    if route.cascade:
        return in_turn([decide_step(step, ctx, candidates) for step in route.cascade])
    eligible: list[Candidate] = []
    excluded: list[Exclusion] = []
    filters = route.filters
    for candidate in candidates:
        if ctx.priced_only and candidate.price is None:
            excluded.append(Exclusion(candidate=candidate, filter=_LIMITS, reason="has no price, and a limit is in $"))
            continue
        for name, policy in filters:
            reason = policy.exclude(ctx, candidate)
            if reason is not None:
                param = reason.param if isinstance(reason, Objection) else None
                excluded.append(Exclusion(candidate=candidate, filter=name, reason=str(reason), param=param))
                break
        else:
            eligible.append(candidate)
    if route.steer is not None:
        return _steered(route, ctx, eligible, excluded)
    order = route.ranker.order(ctx, _bills(route, ctx, eligible))
    return Decision(order=order, excluded=tuple(excluded), ctx=ctx)


def decide_step(step: CascadeStep, ctx: Context, candidates: tuple[Candidate, ...]) -> Decision:
    """The decision of one step of a cascade, among its own targets."""
    return decide(step.route, ctx, tuple([one for one in candidates if step.asks(one.backend, one.model)]))


def in_turn(decisions: Sequence[Decision]) -> Decision:
    """The decisions of a cascade's steps as one: their orders one after the other."""
    return Decision(
        order=tuple([bill for decision in decisions for bill in decision.order]),
        excluded=tuple([out for decision in decisions for out in decision.excluded]),
        ctx=decisions[0].ctx,
    )


def refusal(route: Route, decision: Decision) -> HeadraceError:
    """What the client is told when nobody is left.

    Where every exclusion blames the request, waiting cannot help: the client gets that filter's own error, with its
    reason. Otherwise it may come back when the first backend that could serve it is expected to be well again; to do
    so by itself is no use where only people can mend each of them.
    """
    refusals = _refusals(route)
    blaming = [(kind, out) for out in decision.excluded if (kind := refusals[out.filter]) is not None]
    waiting = [out.candidate for out in decision.excluded if refusals[out.filter] is None]
    if blaming and not waiting:
        kind, exclusion = blaming[0]
        words = f"{exclusion.candidate.model} {exclusion.reason}"
        return kind(f"{words}: {_way_out(exclusion)}" if kind is Unsupported else words, param=exclusion.param)
    reasons = "; ".join(f"{out.candidate.backend}: {out.reason}" for out in decision.excluded)
    passing = [one for one in waiting if one.down not in FOR_PEOPLE]
    waits_s = [one.retry_in_s for one in passing or waiting if one.retry_in_s is not None]
    error = NoCandidate(
        f"no backend can take this now ({reasons or 'the route has no target'})",
        retry_after_s=min(waits_s, default=_UNKNOWN_WAIT_S),
    )
    error.final = bool(waiting) and not passing
    return error


def _way_out(exclusion: Exclusion) -> str:
    """What a client can do about a request that a model cannot serve."""
    return "ask for another model" if exclusion.param == "model" else "leave that out, or ask for another model"


def some_may_be_back(route: Route, decision: Decision) -> bool:
    """Whether one that is out now may take the request later, without anybody's doing."""
    refusals = _refusals(route)
    return any(refusals[out.filter] is None and out.candidate.down not in FOR_PEOPLE for out in decision.excluded)


def _refusals(route: Route) -> dict[str, type[ClientError] | None]:
    """What each filter of a route blames the request with; ``None`` for one that does not."""
    return {name: policy.refusal for name, policy in route.filters} | {_LIMITS: None}


def _steered(route: Route, ctx: Context, eligible: list[Candidate], excluded: list[Exclusion]) -> Decision:
    """The decision of a route that steers: a canary goes first, and filters that yield never leave nobody.

    Where no candidate remains, those come back to which only such filters object, the likeliest to succeed first.
    """
    if eligible or not excluded:
        order = route.ranker.order(ctx, _bills(route, ctx, eligible))
        return Decision(order=tuple(sorted(order, key=_behind_canary)), excluded=tuple(excluded), ctx=ctx)
    firm = [policy for _, policy in route.filters if not getattr(policy, "yields", False)]
    back = [out for out in excluded if all(policy.exclude(ctx, out.candidate) is None for policy in firm)]
    order = route.ranker.order(ctx, _bills(route, ctx, [out.candidate for out in back]))
    still = tuple([out for out in excluded if out not in back])
    return Decision(order=tuple(sorted(order, key=_chance_to_fail)), excluded=still, ctx=ctx)


def _behind_canary(bill: Bill) -> bool:
    return not bill.candidate.goes_first


def _chance_to_fail(bill: Bill) -> float:
    success = bill.candidate.success
    return 1 - success.mean if success is not None else 1.0


def _bills(route: Route, ctx: Context, candidates: list[Candidate]) -> tuple[Bill, ...]:
    """One bill a candidate, made column by column: a term bills all of them in one go where it can."""
    names = route.term_names
    if len(candidates) == 1:
        alone = candidates[0]
        usd = [bill(ctx, alone) for bill in route.terms_of_one]
        return (Bill(candidate=alone, terms=tuple(zip(names, usd, strict=False)), total_usd=sum(usd)),)
    columns = [each(ctx, candidates) for each in route.terms]
    rows = zip(*columns, strict=True) if columns else repeat(())
    return tuple(
        [
            Bill(candidate=candidate, terms=tuple(zip(names, row, strict=False)), total_usd=sum(row))
            for candidate, row in zip(candidates, rows, strict=False)
        ]
    )
