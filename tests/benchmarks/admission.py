"""Who is served when there is too much to do: our queue beside the field's, on a model of one engine, in virtual time.

    python tests/benchmarks/admission.py                         a minute
    python tests/benchmarks/admission.py --rows ROWS.jsonl.gz    with the lengths of answered prompts, really forecast
    python tests/benchmarks/admission.py --engine                `headrace serve` and the default model: 6 minutes
    python tests/benchmarks/admission.py --memory                what 2,000 waiting requests of 100 KB take

The policy is the one that serves, behind the fleet's real account of places; only time and the engine are made up.
Goodput is requests a second that were answered as they want: interactive ones with a first token within 2 s and 60 ms a
token, others whole within 20 s, batch within 300 s. Each way to run writes its part of ``out/admission.json``.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from admission_load import (  # noqa: E402  # found by the line above
    BATCH,
    DEADLINE,
    INTERACTIVE,
    TENANTS,
    Engine,
    Job,
    Lengths,
    jobs,
    made_up_lengths,
    read_lengths,
)
from admission_rivals import RIVALS  # noqa: E402  # likewise
from admission_served import measure_memory, serve_model  # noqa: E402  # likewise
from figures import table  # noqa: E402  # likewise

from gateway.errors import Rejected  # noqa: E402  # likewise
from gateway.fleet.fleet import Fleet  # noqa: E402  # likewise
from gateway.fleet.flight import Flight  # noqa: E402  # likewise
from gateway.price import Usage  # noqa: E402  # likewise
from gateway.rules.policy_file import parse_policy  # noqa: E402  # likewise
from gateway.rules.world import World, build_world  # noqa: E402  # likewise
from gateway.stores.memory import MemoryShared  # noqa: E402  # likewise
from gateway.types import Attempt, LedgerEntry, Outcome, Status  # noqa: E402  # likewise
from policies.admit._fair_order import CLASSES, FairOrder, Waiter  # noqa: E402  # likewise
from tests.virtual_time import LoopClock, run_virtually  # noqa: E402  # likewise

OUT = Path(__file__).with_name("out") / "admission.json"
OURS, NO_CONTROL = "fair_queue", "no control"
PLACES = 48
POLICY = f"""
    backends: {{engine: {{use: fake, models: [m], concurrency: {PLACES}}}}}
    routes:
      all:
        models: [m]
        targets: [engine/m]
        admit: {{use: fair_queue, limit: null, queue: 2000, wait_s: 300, age_s: 150}}
"""
LOADS: Mapping[str, Sequence[tuple[float, float]]] = {
    "0.8x": [(900.0, 0.8)],
    "1.2x": [(900.0, 1.2)],
    "2x": [(900.0, 2.0)],
    "4x burst": [(300.0, 0.8), (60.0, 4.0), (300.0, 0.8)],
}
"""How long, at how many times what the engine can do."""

_WARM_UP_S = 60.0
_FOR_CAPACITY = 3000
_QUANTILES = 100


class House:
    """A fleet, one route, and the engine behind it; and how long it took to say no, in microseconds."""

    def __init__(self, admitter: Any = None) -> None:
        self.world: World = build_world(parse_policy(POLICY, file="policy"), file="policy")
        self.route = self.world.routes[0]
        self.admitter: Any = admitter or self.route.admitter
        self.fleet = Fleet(clock=LoopClock(), shared=MemoryShared(LoopClock()))
        self.engine = Engine()
        self.facts = self.world.backends["engine"].facts()
        self.refuse_us: list[float] = []
        self.left: dict[bool, list[float]] = {True: [], False: []}
        """When somebody left the queue: of the interactive class, and of all."""

    async def serve(self, job: Job) -> None:
        """The life of one request, as ``gateway.pipeline`` has it."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(job.arrived_s - loop.time())
        begun_ns = time.perf_counter_ns()
        visit = self.admitter.admit(job.ctx, self.fleet.rooms.of(self.route, self.world.backends))
        try:
            async with visit:
                job.entered_s = loop.time()
                self._has_left(job, loop.time())
                await self._attempt(job)
        except Rejected as error:
            job.refused_s, job.retry_after_s = loop.time(), error.retry_after_s
            if job.refused_s == job.arrived_s:
                self.refuse_us.append((time.perf_counter_ns() - begun_ns) / 1000)
                job.position = visit.queued.position if visit.queued else 0
            else:
                self._has_left(job, job.refused_s)

    def _has_left(self, job: Job, now_s: float) -> None:
        if now_s > job.arrived_s:
            self.left[False].append(now_s)
            if job.kind != BATCH:
                self.left[True].append(now_s)

    async def _attempt(self, job: Job) -> None:
        (candidate,) = self.fleet.snapshot(self.route, job.ctx, self.world.backends)
        flight = Flight(self.fleet, job.ctx, candidate, self.facts)
        started_s = asyncio.get_running_loop().time()
        await self.engine.serve(job)
        assert job.done_s is not None, "it returns when it is done"
        lengths = job.lengths
        usage = Usage(prompt_tokens=lengths.prompt_tokens, output_tokens=lengths.output_tokens)
        flight.landed(usage=usage, decode_s=None, error=None, now_s=job.done_s)
        self.admitter.observe(_entry(job, usage, started_s))


def _entry(job: Job, usage: Usage, started_s: float) -> LedgerEntry:
    assert job.done_s is not None, "it is done"
    attempt = Attempt(
        backend="engine",
        model="m",
        status=Status.OK,
        started_s=started_s,
        ended_s=job.done_s,
        span_id="0" * 16,
        first_token_s=job.first_token_s,
        usage=usage,
    )
    request = job.ctx.request
    outcome = Outcome(status=Status.OK, http_status=200, finish_reason="stop")
    return LedgerEntry(
        arrival=request.arrival,
        request=request,
        route="all",
        forecast=job.ctx.forecast,
        decision=None,
        attempts=(attempt,),
        outcome=outcome,
        ended_s=job.done_s,
    )


def play(work: Sequence[Job], admitter: Any = None) -> House:
    """Serves all of it, in virtual time."""

    async def story() -> House:
        house = House(admitter)
        await asyncio.gather(*(house.serve(job) for job in work))
        return house

    return run_virtually(story())


def capacity(lengths: Sequence[Lengths]) -> float:
    """Requests a second that the engine finishes while all of its places are always taken."""
    work = jobs(lengths, [(60.0, 50.0)], seed=2)[:_FOR_CAPACITY]
    for job in work:
        job.arrived_s = 0.0
    play(work, RIVALS["FIFO"]())
    return len(work) / max(job.done_s or 0.0 for job in work)


def figures(work: Sequence[Job], lasts_s: float) -> dict[str, float]:
    """What became of those that came after the warm-up; shares are 0 to 1."""
    seen = [job for job in work if job.arrived_s > _WARM_UP_S]
    done = [job for job in seen if job.done_s is not None]
    firsts_s = [(job.kind, job.first_token_s - job.arrived_s) for job in seen if job.first_token_s is not None]

    def share(chosen: Callable[[Job], bool]) -> float:
        some = [job for job in seen if chosen(job)]
        return sum(job.good for job in some) / max(len(some), 1)

    return {
        "goodput_per_s": sum(job.good for job in seen) / (lasts_s - _WARM_UP_S),
        **{kind: share(lambda job, kind=kind: job.kind == kind) for kind in (INTERACTIVE, DEADLINE, BATCH)},  # type: ignore[misc]  # bound now
        "first_token_p99_s": _quantile([s for kind, s in firsts_s if kind == INTERACTIVE], 99),
        "wasted": sum(job.work for job in done if not job.good) / max(sum(job.work for job in done), 1.0),
        **{name: share(lambda job, name=name: job.tenant == name) for name in TENANTS},  # type: ignore[misc]  # likewise
    }


def refusals(house: House, work: Sequence[Job]) -> dict[str, float]:
    """How good ``Retry-After`` was, as a share of the truth, and how long it took to say no.

    What it forecasts is when as many have left the queue as waited at the refusal, of the class and those above.
    """
    errors: list[float] = []
    at: dict[bool, int] = {True: 0, False: 0}
    for job in sorted((one for one in work if one.position > 0), key=lambda one: one.arrived_s):
        first = job.kind != BATCH
        left = house.left[first]
        while at[first] < len(left) and left[at[first]] <= job.arrived_s:
            at[first] += 1
        goal = at[first] + job.position - 2
        if job.arrived_s > _WARM_UP_S and goal < len(left) and job.retry_after_s is not None:
            truth_s = max(left[max(goal, at[first])] - job.arrived_s, 1.0)
            errors.append(abs(job.retry_after_s - truth_s) / truth_s)
    return {
        "retry_after_error_p50": _quantile(errors, 50),
        "retry_after_error_p90": _quantile(errors, 90),
        "refusals": float(len(errors)),
        "refuse_us_p50": _quantile(house.refuse_us, 50),
        "refuse_us_p99": _quantile(house.refuse_us, 99),
    }


def _quantile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=_QUANTILES)[percent - 1] if len(values) > 1 else 0.0


_CROWD, _DECISIONS = 1000, 5000


def decision_us() -> dict[str, float]:
    """CPU of one decision with 1,000 in the queue: what is before a newcomer, its place there, and who is next."""
    dice = random.Random(3)  # noqa: S311  # a repeatable queue, no secret
    order, taken_us = FairOrder(age_s=150.0), []

    def newcomer(now_s: float) -> Waiter:
        return Waiter(
            tenant=f"t{dice.randrange(50)}",
            priority=dice.choice(CLASSES),
            weight=1.0,
            tokens=dice.randrange(10, 900),
            work_s=dice.uniform(0.5, 30.0),
            slack_s=dice.uniform(0.1, 30.0),
            since_s=now_s,
        )

    for _ in range(_CROWD):
        order.push(newcomer(0.0))
    for number in range(_DECISIONS):
        waiter = newcomer(number / 100)
        begun_ns = time.thread_time_ns()
        order.work_ahead_s(waiter)
        order.push(waiter)
        served = order.pop(number / 100)
        assert served is not None, "there are a thousand"
        order.charge(served.tenant, served.weight, served.tokens)
        taken_us.append((time.thread_time_ns() - begun_ns) / 1000)
    return {"p50": _quantile(taken_us, 50), "p99": _quantile(taken_us, 99)}


def compete(lengths: Sequence[Lengths]) -> dict[str, Any]:
    """Everybody under every load."""
    per_s = capacity(lengths)
    report: dict[str, Any] = {"capacity_per_s": per_s, "decision_us": decision_us(), "loads": {}}
    for load, phases in LOADS.items():
        rates, lasts_s = [(s, times * per_s) for s, times in phases], sum(s for s, _ in phases)
        made: dict[str, Any] = {}
        for name in (*RIVALS, OURS):
            work = jobs(lengths, rates)
            house = play(work, RIVALS[name]() if name in RIVALS else None)
            made[name] = figures(work, lasts_s) | (refusals(house, work) if name == OURS else {})
        report["loads"][load] = made
    calm = report["loads"]["0.8x"]
    report["beside_no_control_at_0.8x"] = calm[OURS]["goodput_per_s"] / calm[NO_CONTROL]["goodput_per_s"]
    return report


_SHOWN = {
    "goodput_per_s": "goodput/s",
    INTERACTIVE: "interactive",
    DEADLINE: "deadline",
    BATCH: "batch",
    "first_token_p99_s": "first token p99 s",
    "wasted": "wasted",
    **{name: name for name in TENANTS},
}


def tables(report: Mapping[str, Any]) -> str:
    """A table for each load."""
    parts = [f"The engine does {report['capacity_per_s']:.2f} requests a second."]
    for load, made in report["loads"].items():
        rows = [(name, *(f"{found[key]:.2f}" for key in _SHOWN)) for name, found in made.items()]
        parts.append(f"{load}\n\n{table(('', *_SHOWN.values()), rows)}")
        ours = made[OURS]
        if ours["refusals"]:
            parts.append(
                f"Retry-After is off by {ours['retry_after_error_p50']:.0%} (p90 {ours['retry_after_error_p90']:.0%}) "
                f"over {ours['refusals']:.0f} refusals, each said in {ours['refuse_us_p50']:.0f} us "
                f"(p99 {ours['refuse_us_p99']:.0f} us)."
            )
    crowd = report["decision_us"]
    parts.append(f"A decision with {_CROWD:,} in the queue: {crowd['p50']:.1f} us (p99 {crowd['p99']:.1f} us)")
    parts.append(f"At 0.8x, goodput beside no control: {report['beside_no_control_at_0.8x']:.3f}")
    return "\n\n".join(parts)


def main() -> int:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--engine", action="store_true")
    parser.add_argument("--memory", action="store_true")
    arguments = parser.parse_args()
    report = json.loads(OUT.read_text()) if OUT.exists() else {}
    if arguments.engine:
        report["engine"] = serve_model()
        print(json.dumps(report["engine"], indent=2))
    elif arguments.memory:
        report["memory"] = measure_memory()
        print(json.dumps(report["memory"], indent=2))
    else:
        name = "forecast rows" if arguments.rows else "made-up lengths"
        report[name] = compete(read_lengths(arguments.rows) if arguments.rows else made_up_lengths())
        print(tables(report[name]))
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
