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
from pathlib import Path

import msgspec
from msgspec.structs import replace

from gateway.attempt.spillover import SPILL
from gateway.clock import SystemClock
from gateway.commands.body_format import operation_of
from gateway.commands.explanation import Explanation, as_json, as_text
from gateway.commands.offline import read_world
from gateway.commands.success_known import as_text as success_as_text
from gateway.commands.success_known import success_known
from gateway.decide import decide, refusal
from gateway.door import new_request_id
from gateway.errors import ConfigurationError, HeadraceError
from gateway.fleet.fleet import Fleet
from gateway.fleet.lane import DRAINING
from gateway.prices.price_book import PRICES_FILE, PriceBook
from gateway.rules.tenancy import OPEN_HOUSE
from gateway.rules.world import World
from gateway.settings import read_settings
from gateway.steering.steering import Steering
from gateway.stores.kept_verdicts import KeptVerdict, kept_verdicts
from gateway.stores.ledger_place import ledger_place, name_of, read_place
from gateway.stores.ledger_reader import KeptDecision, kept_decision
from gateway.stores.memory import MemoryShared
from gateway.stores.tables import open_tables
from gateway.trace_context import new_trace
from gateway.types import Arrival, Decision, Operation
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
    words = "what the body is a request of; told by its fields unless given"
    parser.add_argument("--format", choices=[one.value for one in FORMATS], metavar="FORMAT", help=words)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Prints the explanation; 0 where the request would be served, 1 where it would be refused or go elsewhere now."""
    _, world = read_world(arguments.policy)
    if arguments.success:
        return _tell_success(world, in_json=arguments.json)
    try:
        if arguments.entry is not None:
            ledger = arguments.ledger or ledger_place(read_settings())
            kept, verdicts = asyncio.run(_kept(ledger, arguments.entry))
            explanation = explain_kept(world, kept, verdicts, file=str(arguments.policy))
        else:
            operation = Operation(arguments.format) if arguments.format else None
            explanation = explain(world, _read_body(arguments.request), operation)
    except ConfigurationError:
        raise
    except HeadraceError as error:
        print(f"refused with {error.http_status} {error.code}: {error.message}", file=sys.stderr)
        return 1
    except Exception as error:  # a plugin may raise anything
        raise ConfigurationError(_blame(error), file=str(arguments.policy)) from error
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(as_json(explanation)), indent=2).decode())
    else:
        print("\n".join(as_text(explanation)))
    return 1 if explanation.refused or (explanation.kept is not None and not explanation.reproduced) else 0


async def _kept(ledger: Path | str, request_id: str) -> tuple[KeptDecision, tuple[KeptVerdict, ...]]:
    tables, where = open_tables(ledger), name_of(ledger)
    kept = await kept_decision(tables, request_id, where=where)
    return kept, await kept_verdicts(tables, request_id, where=where)


def _tell_success(world: World, *, in_json: bool) -> int:
    report = success_known(world, read_settings().state_dir)
    print(
        msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
        if in_json
        else "\n".join(success_as_text(report))
    )
    return 0


def explain(world: World, body: bytes, operation: Operation | None = None) -> Explanation:
    """What the world would do with ``body``, which its fields tell the ``operation`` of where that is not given.

    Raises:
        HeadraceError: the request would be refused before anything is decided.
    """
    clock = SystemClock()
    operation = operation or operation_of(body)
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
    forecast = route.forecast(request)
    ctx = route.context(request, forecast)
    snapshot = Fleet(
        clock=clock, shared=MemoryShared(clock), prices=PriceBook(read_settings().state_dir / PRICES_FILE)
    ).snapshot(route, ctx, world.backends)
    as_up = tuple(one if one.down == DRAINING else replace(one, down=None) for one in snapshot)
    if route.steer is not None:
        steering = Steering(clock=clock, seat="")
        steering.follow(world.routes)
        as_up = steering.with_success(route, route.steer, ctx, as_up)
    decision = decide(route, ctx, as_up)
    refused = None if decision.order else refusal(route, decision)
    return Explanation(operation=operation, route=route, forecast=forecast, decision=decision, refused=refused)


def explain_kept(world: World, kept: KeptDecision, verdicts: tuple[KeptVerdict, ...] = (), *, file: str) -> Explanation:
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
        operation=facts.ctx.request.arrival.operation,
        route=route,
        forecast=facts.forecast,
        decision=decision,
        refused=None if decision.order else refusal(route, decision),
        kept=Decision(order=facts.order, excluded=facts.excluded),
        verdicts=verdicts,
    )


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
