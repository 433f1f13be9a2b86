"""What the benchmark of admission serves: requests of three kinds and three tenants, and a model of one engine.

The engine is a model of a large one (70 billion parameters on eight cards): steps of 18 ms and 0.2 ms a sequence,
10,000 tokens of prompts a second, read in pieces of 2,048 beside the streams. There is no bound on how many it takes.
"""

import asyncio
import heapq
import math
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

from gateway.forecast import Forecast
from gateway.learning.forecast_rows import Conversations, entry_of, read_rows
from gateway.rules import plugins
from gateway.types import Arrival, ChatRequest, Context, Operation, TraceContext
from gateway.worth import Deadline, Precedence, Worth

INTERACTIVE, DEADLINE, BATCH = "interactive", "deadline", "batch"
FIRST_TOKEN_S, TOKEN_S, TOTAL_S, BATCH_S = 2.0, 0.060, 20.0, 300.0
"""What each kind wants: a first token and a pace; the whole answer; the whole answer, some time."""

TENANTS = ("flood", "small-a", "small-b")

_DEADLINES = {
    INTERACTIVE: Deadline(first_token_s=FIRST_TOKEN_S),
    DEADLINE: Deadline(total_s=TOTAL_S),
    BATCH: Deadline(total_s=BATCH_S),
}
_PRIORITIES = {INTERACTIVE: "interactive", DEADLINE: "interactive", BATCH: "batch"}
_WORTH = Worth(usd_per_second=0.001, usd_per_success=0.01)


class Lengths(NamedTuple):
    """What a request weighs, and what was said of it before."""

    prompt_tokens: int
    output_tokens: int
    p50: int
    p90: int


def read_lengths(path: Path) -> Sequence[Lengths]:
    """Lengths of answered prompts, each forecast by ``learned_length`` after it has learned from those before it."""
    classifier = plugins.build("classify", "learned_length", where="classify")
    conversations, lengths = Conversations(), []
    for row in read_rows(path):
        request = conversations.request(row)
        forecast = classifier.forecast(request)
        classifier.observe(entry_of(request, row))
        lengths.append(
            Lengths(
                max(row.context_tokens, 8),
                max(row.answer_tokens, 1),
                forecast.output_tokens_p50,
                forecast.output_tokens_p90,
            )
        )
    return lengths


_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
_OUTPUT_TOKENS = (1, 51, 135, 255, 379, 550, 769, 1200)
_PROMPT_TOKENS = (8, 38, 306, 731, 1251, 1621, 1945, 2400)
"""Quantiles of the lengths in people's chats with a large model."""

_KNOWN = math.sin(math.pi / 4)


def made_up_lengths(count: int = 20_000, seed: int = 7) -> Sequence[Lengths]:
    """Lengths like those of people's chats, and a forecaster as good as ours: Kendall's tau is 0.5.

    What is known before and what comes are normal on some scale (a Gaussian copula); for tau = 0.5 their correlation is
    sin(pi / 4), by Greiner's relation. The forecast is the median and the 90th percentile of what may come then.
    """
    dice, normal = random.Random(seed), NormalDist()  # noqa: S311  # a repeatable workload, no secret
    unknown, z_p90 = math.sqrt(1 - _KNOWN**2), normal.inv_cdf(0.9)
    lengths = []
    for _ in range(count):
        known = _KNOWN * dice.gauss(0, 1)
        came = known + unknown * dice.gauss(0, 1)
        lengths.append(
            Lengths(
                _tokens(_PROMPT_TOKENS, dice.random()),
                _tokens(_OUTPUT_TOKENS, normal.cdf(came)),
                _tokens(_OUTPUT_TOKENS, normal.cdf(known)),
                _tokens(_OUTPUT_TOKENS, normal.cdf(known + unknown * z_p90)),
            )
        )
    return lengths


def _tokens(quantiles: Sequence[int], share: float) -> int:
    """The quantile for a share, 0 to 1, on the straight line between those that are known."""
    above = min(bisect_right(_SHARES, share), len(_SHARES) - 1)
    part = (share - _SHARES[above - 1]) / (_SHARES[above] - _SHARES[above - 1])
    return round(quantiles[above - 1] + part * (quantiles[above] - quantiles[above - 1]))


@dataclass(slots=True, eq=False)
class Job:
    """One request, what became of it, and when; times are seconds since the beginning."""

    ctx: Context
    kind: str
    lengths: Lengths
    arrived_s: float
    entered_s: float | None = None
    first_token_s: float | None = None
    done_s: float | None = None
    refused_s: float | None = None
    retry_after_s: float | None = None
    position: int = 0

    @property
    def tenant(self) -> str:
        """Who asks."""
        return self.ctx.request.arrival.tenant

    @property
    def good(self) -> bool:
        """Whether it was answered as its kind wants."""
        if self.done_s is None or self.first_token_s is None:
            return False
        if self.kind == INTERACTIVE:
            pace_s = (self.done_s - self.first_token_s) / max(self.lengths.output_tokens - 1, 1)
            return self.first_token_s - self.arrived_s <= FIRST_TOKEN_S and pace_s <= TOKEN_S
        return self.done_s - self.arrived_s <= (TOTAL_S if self.kind == DEADLINE else BATCH_S)

    @property
    def work(self) -> float:
        """Tokens, of which those that are read weigh a twentieth."""
        return self.lengths.output_tokens + self.lengths.prompt_tokens / 20


def jobs(lengths: Sequence[Lengths], rates: Sequence[tuple[float, float]], *, seed: int = 1) -> list[Job]:
    """Poisson arrivals: so many seconds at so many a second, one after the other.

    Half are interactive, three in ten want the whole answer soon, the rest is batch, under keys of its own. ``flood``
    sends half of all, ``small-a`` three tenths, ``small-b`` a fifth.
    """
    dice = random.Random(seed)  # noqa: S311  # likewise
    made: list[Job] = []
    now_s = begun_s = 0.0
    for lasts_s, rate in rates:
        now_s = begun_s
        while (now_s := now_s + dice.expovariate(rate)) < begun_s + lasts_s:
            chosen = lengths[dice.randrange(len(lengths))]
            kind = dice.choices((INTERACTIVE, DEADLINE, BATCH), (5, 3, 2))[0]
            tenant = dice.choices(TENANTS, (5, 3, 2))[0] + ("-batch" if kind == BATCH else "")
            made.append(Job(ctx=_context(len(made), chosen, kind, tenant), kind=kind, lengths=chosen, arrived_s=now_s))
        begun_s += lasts_s
    return made


def _context(number: int, lengths: Lengths, kind: str, tenant: str) -> Context:
    arrival = Arrival(
        id=f"r{number}",
        operation=Operation.CHAT,
        tenant=tenant,
        received_s=0.0,
        received_unix_s=0.0,
        trace=TraceContext(trace_id="0" * 31 + "1", span_id="0" * 15 + "1"),
        precedence=Precedence(priority=_PRIORITIES[kind]),
    )
    return Context(
        request=ChatRequest(arrival=arrival, model="m", stream=True, prompt_bytes=4 * lengths.prompt_tokens),
        forecast=Forecast(
            prompt_tokens=lengths.prompt_tokens,
            output_tokens_p50=max(lengths.p50, 1),
            output_tokens_p90=max(lengths.p90, 1),
        ),
        worth=_WORTH,
        deadline=_DEADLINES[kind],
    )


_READS_TOKENS_PER_S = 10_000.0
_ATTENTION_TOKENS = 53_000.0
_PIECE_TOKENS = 2048
_STEP_S, _SEQUENCE_S, _KV_TOKEN_S = 0.018, 0.0002, 2.9e-8


class Engine:
    """Continuous batching with prompts read in pieces; one step after the other, on the loop's time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reading: deque[list[float]] = deque()
        self._read: dict[int, tuple[Job, asyncio.Future[None]]] = {}
        self._ends: list[tuple[int, int]] = []
        self._writing: dict[int, tuple[Job, asyncio.Future[None]]] = {}
        self._steps = self._count = 0
        self._kv_tokens = 0
        self._stepping: asyncio.Task[None] | None = None

    async def serve(self, job: Job) -> None:
        """Returns when the answer is written; its times are in the job then."""
        self._count += 1
        done = self._loop.create_future()
        self._reading.append([self._count, job.lengths.prompt_tokens, 0])
        self._read[self._count] = (job, done)
        if self._stepping is None:
            self._stepping = asyncio.create_task(self._run())
        await done

    async def _run(self) -> None:
        while self._reading or self._writing:
            seconds, read = self._read_pieces()
            running = len(self._writing)
            await asyncio.sleep(seconds + _STEP_S + _SEQUENCE_S * running + _KV_TOKEN_S * self._kv_tokens)
            self._steps += 1
            self._kv_tokens += running
            self._finish()
            for number in read:
                self._begin(number)
        self._stepping = None

    def _read_pieces(self) -> tuple[float, list[int]]:
        """The time for the next pieces of prompts, and whose prompts are read after them."""
        budget, seconds, read = _PIECE_TOKENS, 0.0, []
        while self._reading and budget:
            head = self._reading[0]
            piece = min(budget, head[1])
            seconds += piece / _READS_TOKENS_PER_S * (1 + (head[2] + piece / 2) / _ATTENTION_TOKENS)
            budget, head[1], head[2] = int(budget - piece), head[1] - piece, head[2] + piece
            if head[1] <= 0:
                self._reading.popleft()
                read.append(int(head[0]))
        return seconds, read

    def _begin(self, number: int) -> None:
        job, done = self._read.pop(number)
        job.first_token_s = self._loop.time()
        self._writing[number] = (job, done)
        self._kv_tokens += job.lengths.prompt_tokens
        heapq.heappush(self._ends, (self._steps + job.lengths.output_tokens - 1, number))
        self._finish()

    def _finish(self) -> None:
        while self._ends and self._ends[0][0] <= self._steps:
            _, number = heapq.heappop(self._ends)
            job, done = self._writing.pop(number)
            self._kv_tokens -= job.lengths.prompt_tokens + job.lengths.output_tokens - 1
            job.done_s = self._loop.time()
            done.set_result(None)
