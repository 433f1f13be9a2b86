"""Whatever goes wrong in whatever order: one budget of attempts, one end, nothing twice, and everything given back."""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends._faults import Fault
from backends._keys import KeyRing
from backends.fake import Fake
from gateway.facts import BackendFacts
from gateway.limits.borrower import Borrower
from gateway.limits.gate import Gate
from gateway.limits.lender import Grant, Need, grant
from gateway.ports import Sink, Surroundings
from gateway.types import Call, Finish, Status

OpenHouse = Callable[..., AbstractAsyncContextManager[Any]]
WORDS = "one two three four five six"
KEY = b"sk-acme"

_FAULTS = st.one_of(
    st.none(),
    st.fixed_dictionaries({
        "kind": st.sampled_from(["refuse", "hang", "stall", "garbage", "empty"]),
        "after_chunks": st.integers(0, 4),
    }),
    st.fixed_dictionaries({
        "kind": st.sampled_from(["error", "cut", "reset"]),
        "after_chunks": st.integers(0, 8),
        "code": st.sampled_from([None, "context_length_exceeded", "insufficient_quota", "rate_limit_exceeded"]),
    }),
    st.fixed_dictionaries({
        "kind": st.just("status"),
        "status": st.sampled_from([400, 401, 402, 403, 404, 408, 422, 429, 500, 503, 529]),
        "code": st.sampled_from([None, "context_length_exceeded", "insufficient_quota"]),
        "retry_after_s": st.sampled_from([None, 0.0, 2.0]),
    }),
)  # fmt: skip
_SCRIPT = st.lists(_FAULTS, max_size=4)


class _Accounts:
    """The ``Lender`` port of a gateway that is alone."""

    trouble = ""

    async def exchange(self, replica: str, needs: Sequence[Need]) -> list[Grant]:
        """See ``Lender``."""
        del replica
        return [grant(need, ()) for need in needs]

    async def close(self) -> None:
        """See ``Lender``."""


@dataclass
class Keyed:
    """A backend with three keys, over the scripted one: refusals are the keys' fault."""

    fake: Fake
    rings: list[KeyRing] = field(default_factory=list)

    async def start(self, name: str, world: Surroundings) -> None:
        """See ``Backend``."""
        keys = [(f"KEY_{number}", f"sk-{number}") for number in range(3)]
        self.rings = [KeyRing(name, keys, clock=world.clock)]
        await self.fake.start(name, world)

    async def send(self, call: Call, sink: Sink) -> Finish:
        """See ``Backend``."""
        with self.rings[0].key():
            return await self.fake.send(call, sink)

    def facts(self) -> BackendFacts:
        """See ``Backend``."""
        return self.fake.facts()

    async def close(self) -> None:
        """See ``Backend``."""
        await self.fake.close()


def _policy(scripts: Sequence[Any], route: str) -> str:
    listed = {
        f"b{number}": {
            "use": "fake",
            "text": WORDS,
            "fail": script,
            "models": {
                "small": {
                    "capabilities": ["continue"],
                    "price": {"input_usd_per_mtok": 1 + number, "output_usd_per_mtok": 1},
                }
            },
        }
        for number, script in enumerate(scripts)
    }
    targets = ", ".join(f"{name}/small" for name in listed)
    limits = "[{requests: 1000, per: day}, {tokens: 100000, per: day}, {usd: 10, per: day}, {concurrent: 5}]"
    return f"""
            backends: {msgspec.json.encode(listed).decode()}
            routes: {{main: {{models: [small], targets: [{targets}], cost: [money],
                              timeouts: {{first_token_s: 0.02, idle_s: 0.02, total_s: 0.5}}, {route}}}}}
            tenants: {{acme: {{keys_sha256: [{hashlib.sha256(KEY).hexdigest()}], limits: {limits}}}}}
            limits: {{backends: {{b0: [{{concurrent: 2}}, {{requests: 1000, per: day}}]}}}}
    """


@dataclass(frozen=True)
class Case:
    """What the backends do, call by call, what the route allows, and which requests come."""

    scripts: list[Any]
    attempts: int
    hedge: bool
    resume: bool
    keyed: bool
    streams: list[bool]
    guarded: str

    @property
    def route(self) -> str:
        """The route's own fields."""
        hedge = ", hedge: {quantile: 0.5, most_requests: 1, most_spend: 1}" if self.hedge else ""
        return f"attempts: {self.attempts}, resume: {str(self.resume).lower()}{hedge}{self._guards}"

    @property
    def _guards(self) -> str:
        """One that finds nothing, and holds streams or some of their words."""
        if not self.guarded:
            return ""
        more = "patterns: ['[0-9]{9}'], action: redact, on_error: refuse"
        return f", guards: [{{when: after, use: pattern, stream: {self.guarded}, {more}}}]"


_CASES = st.builds(
    Case,
    scripts=st.lists(_SCRIPT, min_size=1, max_size=3),
    attempts=st.integers(1, 5),
    hedge=st.booleans(),
    resume=st.booleans(),
    keyed=st.booleans(),
    streams=st.lists(st.booleans(), min_size=1, max_size=3),
    guarded=st.sampled_from(["", "hold", "window"]),
)


@given(case=_CASES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_whatever_fails_there_is_one_budget_one_end_and_nothing_left(
    open_house: OpenHouse, make_exchange: Any, clock: Any, case: Case
) -> None:
    """Hedges, other keys, other backends and the rest of a broken answer share the attempts; no word comes twice."""
    gate = Gate(Borrower(_Accounts(), replica="only", clock=clock), clock=clock)
    replaced = {"b0": Keyed(Fake(text=WORDS, fail=_faults(case.scripts[0]), models=("small",)))} if case.keyed else {}
    async with open_house(_policy(case.scripts, case.route), clock=clock, gate=gate, replaced=replaced) as house:
        for number, stream in enumerate(case.streams):
            before = _calls(house)
            exchange = await house.serve(make_exchange(stream=stream, headers=((b"x-api-key", KEY),)))
            entry = house.entries[-1]
            assert number + 1 == len(house.entries)
            assert _calls(house) - before == len(entry.attempts) <= case.attempts
            _check(exchange, entry, stream=stream)
        assert house.is_quiet()
        assert 0 == gate.borrower.book.reservations
        assert [0] * len(gate.borrower.book.allowances()) == [one.held for one in gate.borrower.book.allowances()]
        assert all(fake.open_calls == fake.closed_calls for fake in _fakes(house))


def _faults(script: Any) -> Any:
    return tuple(None if fault is None else Fault(**fault) for fault in script)


def _fakes(house: Any) -> list[Fake]:
    return [getattr(backend, "fake", backend) for backend in house.world.backends.values()]


def _calls(house: Any) -> int:
    return sum(fake.open_calls for fake in _fakes(house))


def _check(exchange: Any, entry: Any, *, stream: bool) -> None:
    """The client's answer has one beginning and one end, and the ledger says the same."""
    served = entry.outcome.status is Status.OK
    assert 1 == sum(call in {"answer", "open"} for call in exchange.calls)
    assert served is (sum(attempt.status is Status.OK for attempt in entry.attempts) == 1)
    if stream and exchange.status == 200:
        assert WORDS.startswith(exchange.text)
        ends = sum(event == "[DONE]" or "error" in event for event in exchange.events)
        assert (1, served) == (ends, exchange.events[-1] == "[DONE]")
        assert exchange.text == WORDS or not served
        assert exchange.received.count(b'"role"') <= 1
    else:
        assert served is (exchange.status == 200)
        assert served is ("error" not in exchange.json)
