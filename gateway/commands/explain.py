"""``headrace explain policy.yaml request.json``: the forecast, the bill of each candidate, and the choice.

It runs the functions that serve a request, on the facts of a gateway that has just started: nothing in flight, nothing
learned, every backend taken as up.
"""

import argparse
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from gateway.clock import SystemClock
from gateway.commands.offline import read_world
from gateway.decide import decide, refusal
from gateway.door import new_request_id
from gateway.errors import ConfigurationError, HeadraceError
from gateway.fleet import Fleet
from gateway.forecast import Forecast
from gateway.route import Route
from gateway.stores.memory import MemoryShared
from gateway.tenancy import OPEN_HOUSE
from gateway.trace_context import new_trace
from gateway.types import Arrival, Bill, Context, Decision, Operation
from gateway.wire.format import BodyLimits
from gateway.wire.formats import FORMATS
from gateway.world import World


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("policy", type=Path, help="policy file")
    parser.add_argument("request", help="file with the JSON body of a request, or - for standard input")
    parser.add_argument("--json", action="store_true", help="print JSON")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What would happen with a request, and why."""

    route: Route
    forecast: Forecast
    decision: Decision
    refused: HeadraceError | None


def run(arguments: argparse.Namespace) -> int:
    """Prints the explanation; 0 where the request would be served, 1 where it would be refused."""
    _, world = read_world(arguments.policy)
    body = _read_body(arguments.request)
    try:
        explanation = explain(world, body)
    except HeadraceError as error:
        print(f"refused with {error.http_status} {error.code}: {error.message}", file=sys.stderr)
        return 1
    except Exception as error:  # a plugin may raise anything
        raise ConfigurationError(_blame(error), file=str(arguments.policy)) from error
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(_as_json(explanation)), indent=2).decode())
    else:
        print("\n".join(_as_text(explanation)))
    return 1 if explanation.refused else 0


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
    ctx = Context(request=request, forecast=forecast, worth=route.worth, deadline=route.deadline)
    snapshot = Fleet(clock=clock, shared=MemoryShared(clock)).snapshot(route, ctx, world.backends)
    decision = decide(route, ctx, tuple(replace(candidate, down=None) for candidate in snapshot))
    refused = None if decision.order else refusal(route, decision)
    return Explanation(route=route, forecast=forecast, decision=decision, refused=refused)


def _operation(body: bytes) -> Operation:
    """The endpoint that a body is for, by the field that only it has."""
    if b'"messages"' in body:
        return Operation.CHAT
    if b'"prompt"' in body:
        return Operation.COMPLETION
    return Operation.EMBEDDING if b'"input"' in body else Operation.CHAT


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
    output = f"output p50 {forecast.output_tokens_p50}, p90 {forecast.output_tokens_p90} tokens"
    lines = [f"route      {explanation.route.name}", f"forecast   {forecast.prompt_tokens} prompt tokens; {output}"]
    for place, bill in enumerate(decision.order, start=1):
        lines += ["", f"{place}. {_name(bill)}", *(_line(bill, term, usd) for term, usd in bill.terms)]
        lines.append(f"   {'total':<12} ${bill.total_usd:.6f}")
    for out in decision.excluded:
        lines += ["", f"x  {out.candidate.backend}/{out.candidate.model}", f"   {out.filter}: {out.reason}"]
    lines.append("")
    if explanation.refused is not None:
        lines.append(f"refused    {explanation.refused.http_status} {explanation.refused.code}")
    else:
        lines.append(f"choice     {_name(decision.order[0])}")
    return lines


def _line(bill: Bill, term: str, usd: float) -> str:
    assumed = " (assumed: no price is known)" if term == "money" and bill.candidate.price is None else ""
    return f"   {term:<12} ${usd:.6f}{assumed}"


def _as_json(explanation: Explanation) -> dict[str, Any]:
    decision = explanation.decision
    return {
        "route": explanation.route.name,
        "forecast": asdict(explanation.forecast),
        "candidates": [
            {
                "backend": bill.candidate.backend,
                "model": bill.candidate.model,
                "terms_usd": dict(bill.terms),
                "total_usd": bill.total_usd,
                "price_known": bill.candidate.price is not None,
            }
            for bill in decision.order
        ],
        "excluded": [
            {"backend": out.candidate.backend, "model": out.candidate.model, "filter": out.filter, "reason": out.reason}
            for out in decision.excluded
        ],
        "choice": decision.order[0].candidate.backend if decision.order else None,
        "refused": explanation.refused.code if explanation.refused else None,
    }


def _name(bill: Bill) -> str:
    return f"{bill.candidate.backend}/{bill.candidate.model}"
