"""A trace as requests in the order of their arrival, read line by line: no trace is too long."""

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice, pairwise
from pathlib import Path
from statistics import median

from msgspec import Struct

from gateway.errors import ConfigurationError
from gateway.replay.block_cache import Block
from gateway.replay.parquet import is_parquet, parquet_lines
from gateway.replay.request_text import request_of
from gateway.replay.trace_rows import Row, read_row
from gateway.types import ChatRequest

_SPREAD_FROM_MS = 1000
"""Clocks this coarse put requests into one moment that did not come in one moment."""

_LOOK_AHEAD_ROWS = 1000
_ROWS_A_MOMENT = 2


class TraceRequest(Struct, frozen=True, kw_only=True):
    """One request of a trace. ``arrived_s`` counts from the first row; ``blocks`` is what an engine may have cached."""

    index: int
    arrived_s: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[Block, ...]
    request: ChatRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """How a trace is read.

    Attributes:
        load: 1 is the trace's own speed, 1.3 lets the same requests come in 1/1.3 of the time.
        spread_ms: over how long the rows of one timestamp are spread; ``None`` for the step of a coarse clock.
        rate_per_s: arrivals a second where the rows have no timestamps.
        seed: of the spreading and of the arrivals.
        block_tokens: what one of ``hash_ids`` stands for.
        limit: how many rows are read at most.
    """

    load: float = 1.0
    spread_ms: float | None = None
    rate_per_s: float = 1.0
    seed: int = 1
    block_tokens: int = 512
    limit: int | None = None


def count_rows(path: Path, limit: int | None = None) -> int:
    """How many rows the file has.

    Raises:
        ConfigurationError: it cannot be read, or not twice, or is empty.
    """
    if path.is_fifo():
        raise ConfigurationError("a trace is read more than once: it must be a file, and is a pipe", file=str(path))
    with _opened(path) as lines:
        rows = sum(1 for line in islice(lines, limit) if not line.isspace())
    if not rows:
        raise ConfigurationError("the trace has no rows", file=str(path))
    return rows


def has_words(path: Path) -> bool:
    """Whether the trace has prompts, by its first row.

    Raises:
        ConfigurationError: the row is none.
    """
    with _opened(path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.isspace():
                row = read_row(line, file=str(path), number=number)
                return row.prompt is not None or row.messages is not None
    return False


def read_trace(path: Path, options: TraceOptions) -> Iterator[TraceRequest]:
    """The requests in the order of their arrival.

    Raises:
        ConfigurationError: naming the line, when it is reached.
    """
    spread_ms = coarseness_ms(path, options.limit) if options.spread_ms is None else options.spread_ms
    rng = random.Random(options.seed)  # noqa: S311  # a replay is to come out the same every time
    held: list[tuple[float, int, Row]] = []  # a heap of the rows that a later one may still overtake
    index = 0
    for number, row, at_ms in _timed(path, options, rng):
        while held and held[0][0] <= at_ms:
            yield _request(heappop(held), index, options, str(path))
            index += 1
        heappush(held, (at_ms + rng.random() * spread_ms, number, row))
    while held:
        yield _request(heappop(held), index, options, str(path))
        index += 1


def coarseness_ms(path: Path, limit: int | None = None) -> float:
    """The step of a coarse clock, as the first rows show it; 0 for a fine one.

    A clock is coarse where it ticks no oftener than each second and has two requests and more in a tick.
    """
    moments: list[float] = []
    with _opened(path) as lines:
        for number, line in enumerate(islice(lines, min(limit or _LOOK_AHEAD_ROWS, _LOOK_AHEAD_ROWS)), start=1):
            row = None if line.isspace() else read_row(line, file=str(path), number=number)
            if row is not None and row.timestamp is not None:
                moments.append(row.timestamp)
    ticks = sorted(set(moments))
    steps = [later - earlier for earlier, later in pairwise(ticks)]
    coarse = len(moments) >= _ROWS_A_MOMENT * len(ticks) and min(steps, default=0) >= _SPREAD_FROM_MS
    return median(steps) if coarse else 0.0


def _timed(path: Path, options: TraceOptions, rng: random.Random) -> Iterator[tuple[int, Row, float]]:
    """Each row with its line and its moment in ms since the first one's; those without one come at random."""
    first_ms: float | None = None
    last_ms = 0.0
    poisson_ms = 0.0
    with _opened(path) as lines:
        for number, line in enumerate(islice(lines, options.limit), start=1):
            if line.isspace():
                continue
            row = read_row(line, file=str(path), number=number)
            if row.timestamp is None:
                poisson_ms += rng.expovariate(options.rate_per_s) * 1000
            at_ms = poisson_ms if row.timestamp is None else row.timestamp
            if first_ms is None:
                first_ms = last_ms = at_ms
            if at_ms < last_ms:
                fault = f"`timestamp` {at_ms:g} comes after {last_ms:g}"
                hint = "sort the trace by its timestamps"
                raise ConfigurationError(fault, file=str(path), where=f"line {number}", hint=hint)
            last_ms = at_ms
            yield number, row, at_ms - first_ms


def _request(held: tuple[float, int, Row], index: int, options: TraceOptions, file: str) -> TraceRequest:
    at_ms, number, row = held
    arrived_s = at_ms / 1000 / options.load
    request, blocks, prompt_tokens = request_of(
        row, line=number, arrived_s=arrived_s, block_tokens=options.block_tokens, file=file
    )
    return TraceRequest(
        index=index,
        arrived_s=arrived_s,
        prompt_tokens=prompt_tokens,
        output_tokens=max(row.output_length, 1),
        blocks=blocks,
        request=request,
    )


@contextmanager
def _opened(path: Path) -> Iterator[Iterable[bytes]]:
    try:
        if not path.is_fifo() and is_parquet(path):
            yield parquet_lines(path)
            return
        with path.open("rb") as lines:
            yield lines
    except OSError as error:
        raise ConfigurationError(f"cannot be read: {error.strerror}", file=str(path)) from error
