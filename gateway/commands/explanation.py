"""What ``headrace explain`` has found out, in words and as JSON."""

from dataclasses import dataclass
from typing import Any

from msgspec.structs import asdict

from gateway.caching.question import why_not_kept
from gateway.commands.guard_words import guard_lines, guards_as_json
from gateway.commands.judged_words import judging_lines, verdict_lines
from gateway.errors import HeadraceError
from gateway.forecast import Forecast, Seconds
from gateway.limits.refusal import words
from gateway.rules.caching import Caching
from gateway.rules.route import Route, Spill
from gateway.stores.kept_verdicts import KeptVerdict
from gateway.types import Bill, Decision, Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What would happen with a request, and why; ``kept`` is what did happen, where that is asked.

    ``verdicts`` are what judges said of its answers.
    """

    operation: Operation
    route: Route
    forecast: Forecast
    decision: Decision
    refused: HeadraceError | None
    kept: Decision | None = None
    verdicts: tuple[KeptVerdict, ...] = ()

    @property
    def reproduced(self) -> bool:
        """Whether the decision that was kept comes out again: the same order, and the same bills."""
        return self.kept is not None and _in_short(self.kept) == _in_short(self.decision)


def as_text(explanation: Explanation) -> list[str]:
    """The lines that people read."""
    forecast, decision = explanation.forecast, explanation.decision
    kind = explanation.forecast.kind.replace("_", " ")
    output = f"output p50 {forecast.output_tokens_p50}, p90 {forecast.output_tokens_p90} tokens"
    lines = [
        f"route      {explanation.route.name}",
        f"forecast   {forecast.prompt_tokens} prompt tokens; {output}; {kind}",
    ]
    for place, bill in enumerate(decision.order, start=1):
        lines += ["", f"{place}. {_name(bill)}", *(_line(bill, term, usd) for term, usd in bill.terms)]
        lines.append(f"   {'total':<12} ${bill.total_usd:.6f}")
        lines.append(f"   {'time':<12} {_times(forecast, bill)}")
        lines += _card(bill)
    for out in decision.excluded:
        lines += ["", f"x  {out.candidate.backend}/{out.candidate.model}", f"   {out.filter}: {out.reason}"]
    lines.append("")
    if explanation.refused is not None:
        lines.append(f"refused    {explanation.refused.http_status} {explanation.refused.code}")
    else:
        lines.append(f"choice     {_name(decision.order[0])}")
    if explanation.route.spill is not None:
        lines.append(f"spill      {_as_spill(explanation.route.spill)}")
    if explanation.route.cache is not None:
        lines.append(f"cache      {_as_cache(explanation.route.cache, explanation.decision)}")
    lines += guard_lines(explanation.route.guards, explanation.operation)
    lines += judging_lines(explanation.route)
    if explanation.kept is not None:
        lines.append(f"ledger     {_as_kept(explanation)}")
    return [*lines, *verdict_lines(explanation.verdicts)]


def _card(bill: Bill) -> list[str]:
    """How the candidate computes its model, where anybody says so."""
    card = bill.candidate.card
    return [f"   {'card':<12} {', '.join(f'{name} {it}' for name, it in card.stated().items())}"] if card else []


def _as_spill(spill: Spill) -> str:
    to = ", ".join(f"{one.backend}/{one.model}" if one.model else one.backend for one in spill.route.targets)
    return f"to {to} where it would wait more than {spill.after_s:g} s or be late; {words(spill.budget)}"


def _as_cache(cache: Caching, decision: Decision) -> str:
    why_not = why_not_kept(decision.ctx.request, sampled=cache.sampled) if decision.ctx is not None else ""
    if why_not:
        return f"passed by: {why_not}"
    whose = "everybody" if cache.across_tenants else "the same tenant"
    return f"an answer that ends well is kept for {cache.ttl_s:g} s, for {whose}"


def _as_kept(explanation: Explanation) -> str:
    kept = explanation.kept.order if explanation.kept is not None else ()
    if explanation.reproduced:
        return "the same bills and the same choice"
    return f"{_name(kept[0]) if kept else 'nobody'} then: this policy, or what it remembers, is not the same as then"


def _times(forecast: Forecast, bill: Bill) -> str:
    first, whole = _seconds(forecast, bill)
    return (
        f"first token {first.p50:.2f} s (p90 {first.p90:.2f} s), "
        f"whole answer {whole.p50:.2f} s (p80 {whole.p80:.2f} s, p90 {whole.p90:.2f} s)"
    )


def _seconds(forecast: Forecast, bill: Bill) -> tuple[Seconds, Seconds]:
    """When the first token and the last one are expected from a candidate."""
    p50_s, p90_s = bill.candidate.first_token_p50_s, bill.candidate.first_token_p90_s
    pace = bill.candidate.seconds_per_token
    whole = forecast.total_s(first_token_p50_s=p50_s, first_token_p90_s=p90_s, seconds_per_token=pace)
    return Seconds.around(p50_s, p90_s), whole


def _line(bill: Bill, term: str, usd: float) -> str:
    note = " (assumed: no price is known)" if term == "money" and bill.candidate.price is None else ""
    success = bill.candidate.success
    if term == "success" and success is not None:
        drawn = f"explores, drew {success.p:.1%}; " if success.drawn else ""
        chance = f"p {success.mean:.1%}, {success.low:.1%} to {success.high:.1%}"
        note = f" ({drawn}{chance}; {success.n:.1f} tasks, {success.calls:.1f} requests each)"
    return f"   {term:<12} ${usd:.6f}{note}"


def as_json(explanation: Explanation) -> dict[str, Any]:
    """The same for programs."""
    decision = explanation.decision
    return {
        "route": explanation.route.name,
        "forecast": asdict(explanation.forecast)
        | {"class": explanation.forecast.length_class, "kind": explanation.forecast.kind},
        "candidates": [
            {
                "backend": bill.candidate.backend,
                "model": bill.candidate.model,
                "terms_usd": dict(bill.terms),
                "total_usd": bill.total_usd,
                "price_known": bill.candidate.price is not None,
                **({"success": asdict(success)} if (success := bill.candidate.success) is not None else {}),
                **({"card": card.stated()} if (card := bill.candidate.card) is not None else {}),
                "first_token_s": asdict(_seconds(explanation.forecast, bill)[0]),
                "whole_answer_s": asdict(_seconds(explanation.forecast, bill)[1]),
            }
            for bill in decision.order
        ],
        "excluded": [
            {"backend": out.candidate.backend, "model": out.candidate.model, "filter": out.filter, "reason": out.reason}
            for out in decision.excluded
        ],
        "choice": decision.order[0].candidate.backend if decision.order else None,
        "refused": explanation.refused.code if explanation.refused else None,
        **guards_as_json(explanation.route.guards, explanation.operation),
        **_kept_as_json(explanation),
    }


def _kept_as_json(explanation: Explanation) -> dict[str, Any]:
    if explanation.kept is None:
        return {}
    order = explanation.kept.order
    return {
        "kept_choice": order[0].candidate.backend if order else None,
        "reproduced": explanation.reproduced,
        "verdicts": [asdict(verdict) for verdict in explanation.verdicts],
    }


def _name(bill: Bill) -> str:
    return f"{bill.candidate.backend}/{bill.candidate.model}"


def _in_short(decision: Decision) -> list[tuple[str, str, float]]:
    """Who, in which order and for how much; floats that are added up in another order differ in the last digits."""
    return [(bill.candidate.backend, bill.candidate.model, float(f"{bill.total_usd:.9e}")) for bill in decision.order]
