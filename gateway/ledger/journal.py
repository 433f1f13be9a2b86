"""The notes of one request while it runs: the only mutable thing it has, and the source of its ledger entry."""

from collections.abc import Callable, Sequence
from decimal import Decimal

from msgspec import Struct, field

from gateway.forecast import Forecast
from gateway.guard_mark import GuardMark
from gateway.types import Arrival, Attempt, ChatRequest, Decision, LedgerEntry, Outcome, Status


class Journal(Struct, eq=False):
    """What is known so far. The pipeline fills the fields in as it learns them and closes the journal once.

    The fields are those of ``LedgerEntry``, each at its empty value where the request did not get that far; only
    ``headers``, what the client is told of its limits whatever the answer is, go on no ledger. ``settle`` is called at
    its end, with the moment of it on the monotonic clock.
    """

    arrival: Arrival
    request: ChatRequest | None = None
    route: str = ""
    forecast: Forecast | None = None
    decision: Decision | None = None
    chunks: tuple[Sequence[bytes], Sequence[int]] = ((), ())
    attempts: list[Attempt] = field(default_factory=list)
    outcome: Outcome | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    cache: str = ""
    saved_usd: Decimal | None = None
    guards: tuple[GuardMark, ...] = ()
    settle: "Callable[[Journal, float], None] | None" = None
    _closed: bool = False

    __repr__ = object.__repr__  # nobody's words are shown by mistake

    def close(self, ended_s: float) -> LedgerEntry:
        """The entry of this request, which ended at ``ended_s`` on the monotonic clock.

        A journal that nobody gave an outcome is a bug, and is recorded as one: the request still counts.

        Raises:
            RuntimeError: the journal was closed before; a second entry would be a second bill.
        """
        if self._closed:
            raise RuntimeError(f"the journal of request {self.arrival.id} is already closed")
        self._closed = True
        return LedgerEntry(
            arrival=self.arrival,
            request=self.request,
            route=self.route,
            forecast=self.forecast,
            decision=self.decision,
            attempts=tuple(self.attempts),
            outcome=self.outcome or Outcome(status=Status.BUG, http_status=500, error="NoOutcome"),
            ended_s=ended_s,
            chunks=self.chunks,
            cache=self.cache,
            saved_usd=self.saved_usd,
            guards=self.guards,
        )
