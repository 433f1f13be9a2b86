"""``headrace explain policy.yaml request.json``: the forecast, the bill of each candidate, and the choice.

It runs the functions that serve a request, on the facts of a gateway that has just started: nothing in flight, nothing
learned, every backend taken as up. ``headrace explain policy.yaml --entry ID`` runs them on the facts of a request that
was served, as the ledger has kept them: the decision is made anew, and compared with the one that was made.
``headrace explain policy.yaml --success`` tells what verdicts have taught, on routes that steer by them.
"""

import argparse
import asyncio
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from gateway.attempt.spillover import SPILL
from gateway.clock import SystemClock
from gateway.commands.offline import read_world
from gateway.commands.success_known import as_text, success_known
from gateway.decide import decide, refusal
from gateway.door import new_request_id
from gateway.errors import ConfigurationError, HeadraceError
from gateway.fleet.fleet import Fleet
from gateway.fleet.lane import DRAINING
from gateway.forecast import Forecast, Seconds
from gateway.limits.refusal import words
from gateway.rules.route import Route, Spill
from gateway.rules.tenancy import OPEN_HOUSE
from gateway.rules.world import World
from gateway.settings import read_settings
from gateway.steering.steering import Steering
from gateway.stores.ledger_place import ledger_place, name_of, read_place
from gateway.stores.ledger_reader import KeptDecision, kept_decision
from gateway.stores.memory import MemoryShared
from gateway.stores.tables import open_tables
from gateway.trace_context import new_trace
from gateway.types import Arrival, Bill, Decision, Operation
from gateway.wire.format import BodyLimits
from gateway.wire.formats import FORMATS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("policy", type=Path, help="policy file")
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("request", nargs="?", help="file with the JSON body of a request, or - for standard input")
    asked.add_argument("--entry", metavar="ID", help="a request that was served, by the id in its answer's headers")
    asked.add_argument("--success", action="store_true", help="what was learned of success, and how canaries stand")
    parser.add_argument("--ledger", type=read_place, help="the ledger's file; by default that of the state directory")
    parser.add_argument("--json", action="store_true", help="print JSON")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What would happen with a request, and why; ``kept`` is what did happen, where that is asked."""

    route: Route
    forecast: Forecast
    decision: Decision
    refused: HeadraceError | None
    kept: Decision | None = None

    @property
    def reproduced(self) -> bool:
        """Whether the decision that was kept comes out again: the same order, and the same bills."""
        return self.kept is not None and _in_short(self.kept) == _in_short(self.decision)


def run(arguments: argparse.Namespace) -> int:
    """Prints the explanation; 0 where the request would be served, 1 where it would be refused or go elsewhere now."""
    _, world = read_world(arguments.policy)
    if arguments.success:
        return _tell_success(world, in_json=arguments.json)
    try:
        if arguments.entry is not None:
            ledger = arguments.ledger or ledger_place(read_settings())
            explanation = explain_kept(world, _kept(ledger, arguments.entry), file=str(arguments.policy))
        else:
            explanation = explain(world, _read_body(arguments.request))
    except ConfigurationError:
        raise
    except HeadraceError as error:
        print(f"refused with {error.http_status} {error.code}: {error.message}", file=sys.stderr)
        return 1
    except Exception as error:  # a plugin may raise anything
        raise ConfigurationError(_blame(error), file=str(arguments.policy)) from error
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(_as_json(explanation)), indent=2).decode())
    else:
        print("\n".join(_as_text(explanation)))
    return 1 if explanation.refused or (explanation.kept is not None and not explanation.reproduced) else 0


def _kept(ledger: Path | str, request_id: str) -> KeptDecision:
    tables = open_tables(ledger)
    return asyncio.run(kept_decision(tables, request_id, where=name_of(ledger)))


def _tell_success(world: World, *, in_json: bool) -> int:
    report = success_known(world, read_settings().state_dir)
    print(
        msgspec.json.format(msgspec.json.encode(report), indent=2).decode() if in_json else "\n".join(as_text(report))
    )
    return 0


def explain(world: World, body: bytes) -> Explanation:
    """What the world would do with ``body``.

    Raises:
        HeadraceError: the request would be refused before anything is decided.
    """
    clock = SystemClock()
    operation = _operation(body)
    arrival = Arrival(
        id=new_request_id(),
        operation=operation,
        tenant=OPEN_HOUSE,
        received_s=clock.now_s(),
        received_unix_s=clock.unix_s(),
        trace=new_trace(()),
    )
    request = FORMATS[operation].read(arrival, body, BodyLimits())
    route = world.match(request.model)
    forecast = route.classifier.forecast(request)
    ctx = route.context(request, forecast)
    snapshot = Fleet(clock=clock, shared=MemoryShared(clock)).snapshot(route, ctx, world.backends)
    as_up = tuple(one if one.down == DRAINING else replace(one, down=None) for one in snapshot)
    if route.steer is not None:
        steering = Steering(clock=clock, seat="")
        steering.follow(world.routes)
        as_up = steering.with_success(route, route.steer, ctx, as_up)
    decision = decide(route, ctx, as_up)
    refused = None if decision.order else refusal(route, decision)
    return Explanation(route=route, forecast=forecast, decision=decision, refused=refused)


def _operation(body: bytes) -> Operation:
    """The endpoint that a body is for, by the field that only it has."""
    if b'"messages"' in body:
        return Operation.CHAT
    if b'"prompt"' in body:
        return Operation.COMPLETION
    return Operation.EMBEDDING if b'"input"' in body else Operation.CHAT


def explain_kept(world: World, kept: KeptDecision, *, file: str) -> Explanation:
    """The decision made anew, on the facts that it was made from, among the targets that are still in the policy.

    Raises:
        ConfigurationError: the policy has no such route any more.
    """
    routes = {route.name: route for route in world.routes}
    if kept.route not in routes:
        hint = f"routes are {', '.join(routes)}"
        raise ConfigurationError(f"the request went over route `{kept.route}`, which is not here", file=file, hint=hint)
    route, facts = routes[kept.route], kept.facts
    at_home = tuple(out for out in facts.excluded if out.filter == SPILL)
    if at_home and route.spill is not None:
        route = route.spill.route
    targets = {(target.backend, target.model) for target in route.targets}
    still = [one for one in facts.candidates if not targets.isdisjoint({(one.backend, one.model), (one.backend, None)})]
    decision = decide(route, facts.ctx, tuple(still))
    decision = replace(decision, excluded=(*decision.excluded, *at_home))
    return Explanation(
        route=route,
        forecast=facts.forecast,
        decision=decision,
        refused=None if decision.order else refusal(route, decision),
        kept=Decision(order=facts.order, excluded=facts.excluded),
    )


def _in_short(decision: Decision) -> list[tuple[str, str, float]]:
    """Who, in which order and for how much; floats that are added up in another order differ in the last digits."""
    return [(bill.candidate.backend, bill.candidate.model, float(f"{bill.total_usd:.9e}")) for bill in decision.order]


def _read_body(source: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot be read: {error.strerror}", file=source) from error


def _blame(error: Exception) -> str:
    """The error in one line, and the place that raised it: a plugin's author needs no more."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    said = " ".join(str(error).split())
    return f"{type(error).__name__}{f': {said}' if said else ''}, raised in {place.filename}, line {place.lineno}"


def _as_text(explanation: Explanation) -> list[str]:
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
    for out in decision.excluded:
        lines += ["", f"x  {out.candidate.backend}/{out.candidate.model}", f"   {out.filter}: {out.reason}"]
    lines.append("")
    if explanation.refused is not None:
        lines.append(f"refused    {explanation.refused.http_status} {explanation.refused.code}")
    else:
        lines.append(f"choice     {_name(decision.order[0])}")
    if explanation.route.spill is not None:
        lines.append(f"spill      {_as_spill(explanation.route.spill)}")
    if explanation.kept is not None:
        lines.append(f"ledger     {_as_kept(explanation)}")
    return lines


def _as_spill(spill: Spill) -> str:
    to = ", ".join(f"{one.backend}/{one.model}" if one.model else one.backend for one in spill.route.targets)
    return f"to {to} where it would wait more than {spill.after_s:g} s or be late; {words(spill.budget)}"


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


def _as_json(explanation: Explanation) -> dict[str, Any]:
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
        **_kept_as_json(explanation),
    }


def _kept_as_json(explanation: Explanation) -> dict[str, Any]:
    if explanation.kept is None:
        return {}
    order = explanation.kept.order
    return {"kept_choice": order[0].candidate.backend if order else None, "reproduced": explanation.reproduced}


def _name(bill: Bill) -> str:
    return f"{bill.candidate.backend}/{bill.candidate.model}"
