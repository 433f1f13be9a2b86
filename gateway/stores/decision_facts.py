"""What a decision was made from, as the ledger keeps it: numbers and names, and nobody's words.

Enough to make the decision anew: what of the request policies may look at, the forecast, what time and success were
worth, the snapshot of every candidate, and the bills that came out.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import zstandard
from msgspec import Struct

from gateway.conversation import Sampling
from gateway.forecast import Forecast
from gateway.stores.facts_layout import ROW, laid, named
from gateway.types import Arrival, Bill, Candidate, ChatRequest, Context, Exclusion, LedgerEntry
from gateway.worth import Deadline, Worth

IN_ROW = (*ROW, "trace_id")
"""Columns of ``requests`` that are not kept a second time with the decision."""
_PLAIN_BYTES = 1024
"""Facts of one or two candidates stay as they are: to press them saves little, and takes as long as to write a row."""
_PRESSED = b"\x28\xb5\x2f\xfd"
"""What Zstandard begins with (RFC 8878, section 3.1.1), and no encoded facts do."""
_MOST_FACTS_BYTES = 16 * 1024 * 1024


class DecisionFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One decision. Fields that a later version adds have defaults: what was kept before can be read."""

    arrival: Arrival
    model: str
    stream: bool = False
    n: int = 1
    max_tokens: int | None = None
    sampling: Sampling = Sampling()
    needs: frozenset[str] = frozenset()
    prompt_bytes: int = 0
    forecast: Forecast
    worth: Worth
    deadline: Deadline | None = None
    order: tuple[Bill, ...]
    excluded: tuple[Exclusion, ...] = ()

    @property
    def ctx(self) -> Context:
        """The context in which it was made, but for the words."""
        request = ChatRequest(
            arrival=self.arrival,
            model=self.model,
            stream=self.stream,
            n=self.n,
            max_tokens=self.max_tokens,
            sampling=self.sampling,
            needs=self.needs,
            prompt_bytes=self.prompt_bytes,
        )
        return Context(request=request, forecast=self.forecast, worth=self.worth, deadline=self.deadline)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """All of them, by name: the order in which they were looked at is not kept, and decides nothing."""
        found = [*(bill.candidate for bill in self.order), *(out.candidate for out in self.excluded)]
        return tuple(sorted(found, key=lambda candidate: (candidate.backend, candidate.model)))


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODER = msgspec.msgpack.Decoder(DecisionFacts)
_LAID = msgspec.msgpack.Decoder(list[Any])
_FIRST_OF_LAID = range(0x90, 0xA0)
"""What a short array begins with, and no map does: facts had the names of their fields before they had places."""
_PRESS = zstandard.ZstdCompressor(level=1)  # in half the time that zlib takes, most of it for so small a thing


def facts_of(entry: LedgerEntry) -> bytes | None:
    """The facts of the entry's decision, encoded; ``None`` where it has none."""
    decision = entry.decision
    if decision is None or decision.ctx is None:
        return None
    return _ENCODE(laid(decision, decision.ctx))


def pressed(facts: bytes) -> bytes:
    """As it is kept: candidates differ in little, so that eight of them take hardly more than one. For one thread."""
    return _PRESS.compress(facts) if len(facts) > _PLAIN_BYTES else facts


def read_facts(kept: bytes, row: Mapping[str, Any]) -> DecisionFacts:
    """What was kept. ``row`` has the columns ``IN_ROW`` of the request.

    Raises:
        ValueError: it is damaged, or of a version that cannot be read.
    """
    try:
        if kept.startswith(_PRESSED):
            kept = zstandard.ZstdDecompressor().decompress(kept, max_output_size=_MOST_FACTS_BYTES)
        if kept and kept[0] in _FIRST_OF_LAID:
            kept = _ENCODE(named(_LAID.decode(kept), row))
        return _DECODER.decode(kept)
    except (zstandard.ZstdError, msgspec.DecodeError, TypeError, ValueError) as error:
        raise ValueError(f"the facts of this decision cannot be read: {error}") from error
