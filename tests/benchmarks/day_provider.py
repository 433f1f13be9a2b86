"""A provider for a scripted day: it answers in OpenAI's format, fails now and then, and writes down what it charges."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from random import Random
from typing import Any

import msgspec

from gateway.errors import UpstreamFailed
from gateway.facts import BackendFacts, ModelFacts
from gateway.ports import Sink, Surroundings
from gateway.price import Price
from gateway.types import Call, Finish, Operation

MODEL = "m"
_BYTES_PER_TOKEN = 4
_MILLION = Decimal(1_000_000)
_STALL_S = 0.4


@dataclass(eq=False)
class Account:
    """What a provider has charged, in all and by the task that the call was for; and how its calls ended."""

    usd: Decimal = Decimal(0)
    by_task: dict[str, Decimal] = field(default_factory=dict)
    ends: Counter[str] = field(default_factory=Counter)

    def charge(self, task: str, usd: Decimal, end: str) -> None:
        """Books one call."""
        self.usd += usd
        self.by_task[task] = self.by_task.get(task, Decimal(0)) + usd
        self.ends[end] += 1


ACCOUNTS: dict[str, Account] = {}
"""By the name of the backend in the policy file; a script empties it."""


@dataclass(frozen=True, kw_only=True)
class DayProvider:
    """Charges for the prompt as soon as it begins to read, and for each token as it is sent; for a refusal nothing.

    Each piece tells the usage so far, as vLLM's ``continuous_usage_stats`` does. ``fails``, ``cuts`` and ``stalls`` are
    shares of the calls: refused with a 500, ended in the middle, and so slow that a hedge comes first.

    Example::

        backends:
          cheap: {use: "day_provider:DayProvider", input_usd_per_mtok: 0.2, output_usd_per_mtok: 0.6}
    """

    input_usd_per_mtok: Decimal
    output_usd_per_mtok: Decimal
    tokens: int = 20
    first_token_s: float = 0.001
    fails: float = 0.0
    cuts: float = 0.0
    stalls: float = 0.0

    _names: list[str] = field(init=False, repr=False, compare=False, default_factory=list)

    async def start(self, name: str, world: Surroundings) -> None:
        """See ``Backend.start``."""
        del world
        self._names[:] = [name]
        ACCOUNTS.setdefault(name, Account())

    def facts(self) -> BackendFacts:
        """See ``Backend.facts``."""
        return self._facts

    @cached_property
    def _facts(self) -> BackendFacts:
        price = Price(input_usd_per_mtok=self.input_usd_per_mtok, output_usd_per_mtok=self.output_usd_per_mtok)
        return BackendFacts(models={MODEL: ModelFacts(price=price)}, operations=frozenset({Operation.CHAT}))

    async def close(self) -> None:
        """See ``Backend.close``."""

    async def send(self, call: Call, sink: Sink) -> Finish:
        """See ``Backend.send``."""
        (name,) = self._names
        account, task = ACCOUNTS[name], call.request.arrival.task
        lot = Random(f"{name}/{account.ends.total()}").random()  # noqa: S311  # a script's dice
        if lot < self.fails:
            account.charge("", Decimal(0), "failed")
            raise UpstreamFailed("the scripted provider has failed", upstream_status=500)
        read = -(-call.request.prompt_bytes // _BYTES_PER_TOKEN)
        written, end = 0, "left"
        cut = lot < self.fails + self.cuts
        try:
            sink.begin(streamed=True)
            stalls = lot >= 1 - self.stalls
            await asyncio.sleep(_STALL_S if stalls else self.first_token_s)
            for written in range(1, self.tokens + 1):
                await sink.push(_piece({"content": " ab"}, None, read, written))
                if cut and written > self.tokens // 2:
                    end = "cut"
                    return await sink.end()
            await sink.push(_piece({}, "stop", read, written) + b"data: [DONE]\n\n")
            end = "whole"
            return await sink.end()
        finally:
            usd = (read * self.input_usd_per_mtok + written * self.output_usd_per_mtok) / _MILLION
            account.charge(task.id if task is not None else "", usd, end)


def _piece(delta: dict[str, Any], reason: str | None, read: int, written: int) -> bytes:
    event = {
        "id": "chatcmpl-day",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": MODEL,
        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
    }
    return b"data: %b\n\n" % msgspec.json.encode(event)
