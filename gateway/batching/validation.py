"""Looks at every line of a batch's file before the first one is sent."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass

from gateway.batching.batch import Batch
from gateway.batching.bounds import BatchBounds
from gateway.batching.lines import BatchLine, LineFault, LineSplitter, read_line
from gateway.errors import ModelNotFound
from gateway.rules.tenancy import Identity
from gateway.rules.world import World

MOST_FAULTS = 100
"""Of one batch are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How many requests there are, the model where all ask for the same, and what is wrong; nothing, if it is good."""

    total: int
    model: str
    faults: tuple[LineFault, ...]


async def lines_of(
    batch: Batch, pieces: AsyncIterator[bytes], max_line_bytes: int
) -> AsyncGenerator[BatchLine | LineFault, None]:
    """The requests of a batch's file, in order, and what is none."""
    splitter = LineSplitter(max_line_bytes)
    async for piece in pieces:
        for number, line in splitter.feed(piece):
            yield read_line(number, line, batch.record.endpoint)
    for number, line in splitter.end():
        yield read_line(number, line, batch.record.endpoint)


async def validate(
    found: AsyncIterator[BatchLine | LineFault], bounds: BatchBounds, may_ask: Callable[[str], bool]
) -> Verdict:
    """What is to be said of the lines; ``may_ask`` tells whether a model is there for the client."""
    faults: list[LineFault] = []
    names: set[bytes] = set()
    models: set[str] = set()
    async for line in found:
        fault = line if isinstance(line, LineFault) else _fault(line, names, may_ask)
        if fault is not None:
            faults.append(fault)
        elif isinstance(line, BatchLine):
            models.add(line.model)
        if len(faults) >= MOST_FAULTS:
            break
        if len(names) > bounds.max_lines:
            words = f"The file has more than {bounds.max_lines} requests."
            faults.insert(0, LineFault(code="too_many_tasks", message=words))
            break
    if not names and not faults:
        faults.append(LineFault(code="empty_file", message="The file has no request."))
    return Verdict(total=len(names), model=models.pop() if len(models) == 1 else "", faults=tuple(faults))


def _fault(line: BatchLine, names: set[bytes], may_ask: Callable[[str], bool]) -> LineFault | None:
    name = hashlib.blake2b(line.custom_id.encode(), digest_size=16).digest()  # names may be long, and are many
    if name in names:
        words = "The custom_id stands on an earlier line, too."
        return LineFault(code="duplicate_custom_id", message=words, param="custom_id", line=line.number)
    names.add(name)
    if not may_ask(line.model):
        words = "No route answers this model."
        return LineFault(code="model_not_found", message=words, param="body.model", line=line.number)
    return None


def is_there_for(world: World, identity: Identity, model: str) -> bool:
    """Whether a model is answered, and is for this client."""
    try:
        world.route_for(identity, model)
    except ModelNotFound:
        return False
    return True
