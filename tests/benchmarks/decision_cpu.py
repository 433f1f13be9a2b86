"""What a decision costs in CPU time, apart from everything else.

The clock is the process' own, so that a busy machine does not count. A decision is the snapshot of the fleet and the
choice, for a prompt whose digests are known; the digests are measured by themselves, of prompts never seen before.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from time import process_time_ns

from msgspec.structs import replace

from gateway.decide import decide
from gateway.fleet.fleet import Fleet
from gateway.fleet.flight import Flight
from gateway.fleet.prompt_chain import SessionChains
from gateway.replay.request_text import request_of
from gateway.replay.scene import read_stage
from gateway.replay.simulated import SimulatedClock
from gateway.replay.trace_rows import Row
from gateway.rules.preset_files import policy_path
from gateway.stores.memory import MemoryShared
from gateway.types import ChatRequest, Context

BACKENDS = 8
_CALLS, _BATCH = 300, 20


def decision_us(blocks: int, policy: str = "default") -> dict[str, float]:
    """p50 and p99 of a decision among eight backends, half of which hold some of the prompt of ``blocks`` blocks."""
    clock = SimulatedClock()
    scene = read_stage(policy_path(policy), replicas=BACKENDS).build()
    fleet = Fleet(clock=clock, shared=MemoryShared(clock))
    route, backends = scene.route, scene.backends
    ctxs = [
        Context(request=request, forecast=route.classifier.forecast(request), worth=route.worth)
        for request in _requests(blocks)
    ]
    for number, ctx in enumerate(ctxs[:BACKENDS]):
        candidates = fleet.snapshot(route, ctx, backends)
        candidate = candidates[number // 2]
        Flight(fleet, ctx, candidate, backends[candidate.backend].facts()).first_token(clock.now_s())
    ctx = ctxs[-1]
    fleet.chains.chain(ctx.request)

    def choose() -> None:
        decide(route, ctx, fleet.snapshot(route, ctx, backends))

    return _of_batches(choose)


def hashing_us(kilobytes: int = 48) -> dict[str, float]:
    """p50 and p99 of making the digests of a prompt that begins like no other."""
    chains = SessionChains()
    taken = []
    for request in _unlike(kilobytes * 1024, _CALLS):
        began_ns = process_time_ns()
        chains.chain(request)
        taken.append((process_time_ns() - began_ns) / 1000)
    return _percentiles(taken)


def _of_batches(call: Callable[[], object]) -> dict[str, float]:
    """Of the mean of twenty calls, which is as short a time as the clock tells well."""
    taken = []
    for _ in range(_CALLS):
        began_ns = process_time_ns()
        for _ in range(_BATCH):
            call()
        taken.append((process_time_ns() - began_ns) / 1000 / _BATCH)
    return _percentiles(taken)


def _percentiles(taken: Sequence[float]) -> dict[str, float]:
    settled = sorted(taken[len(taken) // 10 :])  # the first ones warm up
    return {"p50": statistics.median(settled), "p99": settled[int(0.99 * len(settled))]}


def _requests(blocks: int) -> Iterator[ChatRequest]:
    """Prompts that share their first half."""
    for number in range(BACKENDS + 1):
        tail = range(1000 * (number + 1), 1000 * (number + 1) + blocks - blocks // 2)
        row = Row(input_length=blocks * 512, output_length=100, hash_ids=(*range(blocks // 2), *tail))
        yield request_of(row, line=number, arrived_s=0.0, block_tokens=512, file="")[0]


def _unlike(prompt_bytes: int, number: int) -> Iterator[ChatRequest]:
    (first,) = list(_requests(1))[:1]
    words = "x" * prompt_bytes
    for one in range(number):
        arrival = replace(first.arrival, id=f"unlike-{one}")
        yield replace(first, arrival=arrival, prompt=f"{one} {words}"[:prompt_bytes], prompt_bytes=prompt_bytes)
