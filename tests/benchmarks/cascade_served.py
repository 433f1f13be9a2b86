"""Serves the questions of the cascade benchmark through the gateway's own pipeline, and reads the ledger."""

import asyncio
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from mmlu import Question
from mmlu_models import QUESTIONS

from gateway.attempt.afterwards import open_afterwards
from gateway.attempt.sink import AnswerBounds
from gateway.attempt.trial import Bench
from gateway.clock import SystemClock
from gateway.door import Door
from gateway.exchange import RawHeaders
from gateway.fleet.fleet import Fleet
from gateway.ledger.ledger import EntryLedger
from gateway.limits.held_bodies import HeldBodies
from gateway.pipeline import Pipeline, Rules
from gateway.ports import Surroundings
from gateway.rules.policy_file import parse_policy
from gateway.rules.world import build_world
from gateway.stores.memory import MemoryShared
from gateway.stores.responses import ResponseMemory
from gateway.transport.client import open_connections
from gateway.types import LedgerEntry, Operation
from gateway.wire.format import BodyLimits

_POLICY = """
backends:
  weak: {use: "mmlu_models:Answering", model: weak}
  strong: {use: "mmlu_models:Answering", model: strong}
routes:
  mmlu:
    models: ["*"]
    classify: {use: by_length, message_tokens: 0}
    cascade:
      - {targets: [weak], judge: [{use: "mmlu_models:Checking", right: %s}]}
      - {targets: [strong]}
"""


class Served(NamedTuple):
    """A question that was served: whether the client got a right answer, and what is on the ledger for it."""

    right: bool
    usd: Decimal


class _Asked:
    """A client in memory."""

    operation = Operation.CHAT
    headers: RawHeaders = ()
    gone = started = streaming = False

    def __init__(self, prompt: str) -> None:
        self._body = msgspec.json.encode({"model": "mmlu", "messages": [{"role": "user", "content": prompt}]})
        self.answered: Any = None

    async def body(self) -> bytes:
        return self._body

    async def answer(self, status: int, headers: RawHeaders, body: bytes) -> None:  # noqa: ARG002  # the port's signature
        self.started = True
        self.answered = msgspec.json.decode(body)


class _Keeper:
    def __init__(self) -> None:
        self.entries: list[LedgerEntry] = []

    def observe(self, entry: LedgerEntry) -> None:
        self.entries.append(entry)


async def serve(questions: Sequence[Question], quality: float) -> list[Served]:
    """The questions one after the other, judged by a judge of that quality."""
    QUESTIONS.update((question.prompt, question) for question in questions)
    world = build_world(parse_policy(_POLICY % quality, file="cascade.yaml"), file="cascade.yaml")
    clock, keeper = SystemClock(), _Keeper()
    shared = MemoryShared(clock)
    bounds = AnswerBounds(max_event_bytes=1 << 20, max_answer_bytes=1 << 20)
    bench = Bench(fleet=Fleet(clock=clock, shared=shared), clock=clock, bounds=bounds)
    afterwards = open_afterwards(bench, connect=open_connections, secret=lambda _: None, sinks=())
    pipeline = Pipeline(
        Rules(world, Door(world.tenancy.keys, max_header_bytes=65_536, clock=clock)),
        bench=bench,
        afterwards=afterwards,
        ledger=EntryLedger([keeper], []),
        limits=BodyLimits(),
        memory=ResponseMemory(shared, kept_s=1.0),
        bodies=HeldBodies(most_bytes=1 << 20, longest_bytes=1 << 20),
    )
    surroundings = Surroundings(
        clock=clock,
        secret=lambda _: None,
        connect=open_connections,
        behind_proxy=lambda _: False,
        model_dir=Path(),
    )
    for name, backend in world.backends.items():
        await backend.start(name, surroundings)
    served = []
    for question in questions:
        client = _Asked(question.prompt)
        await asyncio.create_task(pipeline.handle(client))  # type: ignore[arg-type]  # what it never uses is left out
        usd = keeper.entries.pop().cost_usd
        served.append(Served(client.answered["choices"][0]["message"]["content"] == "right", usd or Decimal(0)))
    await pipeline.drain(0)
    await afterwards.close()
    return served
