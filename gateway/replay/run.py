"""The replay itself: requests come, policies choose, engines serve, in virtual time."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop
from math import inf

from gateway.fleet.fleet import Fleet
from gateway.replay.engine import Engine, Event, Job, Mark
from gateway.replay.engine_model import EngineModel
from gateway.replay.gateway_replica import GatewayReplica, Sending
from gateway.replay.prediction import Prediction, predictor
from gateway.replay.scene import Scene, Stage
from gateway.replay.simulated import SimulatedClock
from gateway.replay.sketch import Sketch
from gateway.replay.tally import Result, Tally
from gateway.replay.telling import Telling
from gateway.replay.trace import TraceRequest
from gateway.stores.memory import MemoryShared


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """When an answer was good: its first token within ``ttft_s``, and its tokens no further apart than ``tpot_s``."""

    ttft_s: float = 3.0
    tpot_s: float = inf

    def met(self, ttft_s: float, tpot_s: float | None) -> bool:
        """Whether an answer was good."""
        return ttft_s <= self.ttft_s and (tpot_s is None or tpot_s <= self.tpot_s)


_DEFAULT_ENGINE = EngineModel()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What is the same for all policies of a comparison.

    Attributes:
        engines: the speeds by backend; ``default_engine`` for those not in it.
        default_engine: the speeds of everyone else.
        cache_blocks: how many blocks each engine's prefix cache holds.
        gateways: how many replicas of the gateway there are; each request comes to one at random.
        share_s: how long it takes until they know of each other's attempts; ``None`` where they never do.
        prediction: where the forecast comes from.
        objective: when an answer was good.
        warm_up: how many requests are served before counting begins.
        seed: of everything that is drawn.
    """

    engines: Mapping[str, EngineModel] = field(default_factory=dict)
    default_engine: EngineModel = _DEFAULT_ENGINE
    cache_blocks: int = 5000
    gateways: int = 1
    share_s: float | None = 0.05
    prediction: Prediction = "policy"
    objective: Objective = Objective()
    warm_up: int = 0
    seed: int = 1


class Replay:
    """One policy under one set of conditions. ``tally`` has the results, ``decide_us`` the CPU time of the choices."""

    def __init__(self, stage: Stage, conditions: Conditions) -> None:
        self._conditions = conditions
        self._clock = SimulatedClock()
        self._rng = random.Random(conditions.seed)  # noqa: S311  # the same every time
        self._telling = Telling(self._clock, delay_s=conditions.share_s or 0.0)
        scenes = [stage.build() for _ in range(conditions.gateways)]
        fleets = [self._fleet(number) for number in range(conditions.gateways)]
        self._telling.connect(fleets if self._shares else ())
        self._gateways = [self._gateway(*pair) for pair in enumerate(zip(scenes, fleets, strict=True))]
        self._names = tuple(scenes[0].backends)
        self.engines = {
            name: Engine(conditions.engines.get(name, conditions.default_engine), cache_blocks=conditions.cache_blocks)
            for name in self._names
        }
        self._number = {name: number for number, name in enumerate(self._names)}
        self._events: list[Event] = []
        self._under_way: dict[int, tuple[GatewayReplica, Sending]] = {}
        self.tally = Tally(engines=len(self._names), warm_up=conditions.warm_up)

    @property
    def _shares(self) -> bool:
        return self._conditions.gateways > 1 and self._conditions.share_s is not None

    def _fleet(self, number: int) -> Fleet:
        name = f"gateway-{number + 1}"
        tell = self._telling.teller(name) if self._shares else None
        return Fleet(clock=self._clock, shared=MemoryShared(self._clock), replica=name, tell=tell)

    def _gateway(self, number: int, of: tuple[Scene, Fleet]) -> GatewayReplica:
        scene, fleet = of
        forecaster, observers = predictor(self._conditions.prediction, scene, seed=self._conditions.seed + number)
        return GatewayReplica(scene, fleet, predictor=forecaster, observers=observers)

    @property
    def decide_us(self) -> Sketch:
        """Microseconds of CPU a choice."""
        merged = Sketch()
        for gateway in self._gateways:
            merged.merge(gateway.decide_us)
        return merged

    def run(self, trace: Iterable[TraceRequest]) -> None:
        """Plays the trace to its end, and every answer too."""
        for traced in trace:
            self._advance(traced.arrived_s)
            self._arrive(traced)
        self._advance(inf)

    def _arrive(self, traced: TraceRequest) -> None:
        gateways = self._gateways
        gateway = gateways[0] if len(gateways) == 1 else self._rng.choice(gateways)
        sending = gateway.send(traced)
        job = Job(
            traced.index,
            arrived_s=traced.arrived_s,
            prompt_tokens=traced.prompt_tokens,
            output_tokens=traced.output_tokens,
            blocks=traced.blocks,
        )
        self.engines[sending.candidate.backend].submit(job)
        self._under_way[traced.index] = (gateway, sending)

    def _advance(self, until_s: float) -> None:
        """Lets engines work until ``until_s``, and tells the gateways what happened up to then, in its order."""
        events, telling = self._events, self._telling
        for engine in self.engines.values():
            engine.advance(until_s, events)
        while (now_s := min(events[0][0] if events else inf, telling.next_s)) <= until_s and now_s < inf:
            self._clock.set(now_s)
            if telling.next_s <= now_s:
                telling.deliver()
            else:
                self._happened(heappop(events))
        if until_s < inf:
            self._clock.set(until_s)
            telling.beat()

    def _happened(self, event: Event) -> None:
        now_s, mark, _, job = event
        if mark is Mark.FINISHED:
            self._finished(job)
        else:
            gateway, sending = self._under_way[job.index]
            gateway.first_token(sending, now_s)

    def _finished(self, job: Job) -> None:
        gateway, sending = self._under_way.pop(job.index)
        cost_usd = gateway.landed(sending, job)
        ttft_s = job.first_token_s - job.arrived_s
        gaps = job.output_tokens - 1
        tpot_s = (job.finished_s - job.first_token_s) / gaps if gaps else None
        self.tally.add(
            Result(
                index=job.index,
                engine=self._number[sending.candidate.backend],
                arrived_s=job.arrived_s,
                ttft_s=ttft_s,
                e2e_s=job.finished_s - job.arrived_s,
                tpot_s=tpot_s,
                prompt_tokens=job.prompt_tokens,
                cached_tokens=job.cached_tokens,
                output_tokens=job.output_tokens,
                prefill_s=job.prefill_s,
                cost_usd=None if cost_usd is None else float(cost_usd),
                good=self._conditions.objective.met(ttft_s, tpot_s),
            )
        )
