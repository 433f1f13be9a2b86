from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gateway.forecast import RequestKind
from gateway.task import JudgedRequest, Task, Verdict

NOW_UNIX_S = 1_700_000_000.0


@dataclass
class Listener:
    """Keeps what it hears; ``broken`` raises instead."""

    broken: bool = False
    heard: list[Verdict] = field(default_factory=list)

    def judged(self, verdict: Verdict) -> None:
        """See ``VerdictObserver``."""
        if self.broken:
            raise RuntimeError("a bug")
        self.heard.append(verdict)


async def test_a_verdict_is_told_with_its_requests_and_what_it_revises(
    open_books: Any, make_entry: Any, tmp_path: Path, clock: Any
) -> None:
    """Once for each outcome that stands; one that comes late says nothing new, and a broken listener harms nobody."""
    listener = Listener()
    async with open_books(tmp_path / "ledger.sqlite3", observers=[Listener(broken=True), listener]) as books:
        entry = make_entry(1)
        await books.take(replace(entry, arrival=replace(entry.arrival, task=Task(id="t"))), make_entry(2))
        await books.judge("acme", "t", success=True, score=0.5, at_unix_s=NOW_UNIX_S - 5)
        await books.judge("acme", "t", success=False, at_unix_s=NOW_UNIX_S - 9)
        await books.judge("acme", "t", success=None)
        await books.judge("beta", "t", success=True)
    request = JudgedRequest(
        id="req-1",
        route="default",
        backend="groq",
        model="llama",
        answered=True,
        kind=RequestKind.SHORT_IN_SHORT_OUT,
        cost_usd=Decimal("0.00012"),
        received_unix_s=NOW_UNIX_S,
    )
    first = Verdict(tenant="acme", task="t", success=True, score=0.5, at_unix_s=NOW_UNIX_S - 5, requests=(request,))
    revised = Verdict(
        tenant="acme", task="t", success=None, at_unix_s=clock.unix_s(), revises=True, earlier=True, requests=(request,)
    )
    other = Verdict(tenant="beta", task="t", success=True, at_unix_s=clock.unix_s())
    assert [first, revised, other] == listener.heard
