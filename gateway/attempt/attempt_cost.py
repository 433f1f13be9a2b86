"""What one attempt costs: by whose price, and how sure that is."""

from decimal import Decimal

from msgspec import Raw

from gateway.facts import BackendFacts
from gateway.price import Charge, CostDoubt, Price, Usage
from gateway.prices.price_book import PriceBook
from gateway.types import Candidate, ChatRequest

_MOST_STATED_USD = 100_000
"""An upstream that says more of one answer is not believed."""


class AttemptCost:
    """Reckons once for the answer's header and the ledger.

    Args:
        candidate: who was asked, with the price that the decision was made by.
        facts: of its backend.
        book: the prices of other models that may answer there.
        started_s: when the attempt began, on the monotonic clock.
    """

    __slots__ = ("_book", "_candidate", "_charge", "_charged", "_facts", "_request", "_started_s")

    def __init__(
        self,
        request: ChatRequest,
        candidate: Candidate,
        facts: BackendFacts,
        *,
        book: PriceBook,
        started_s: float,
    ) -> None:
        self._request = request
        self._candidate = candidate
        self._facts = facts
        self._book = book
        self._started_s = started_s
        self._charged: tuple[Usage, str] | None = None
        self._charge = Charge(None)

    def of(self, usage: Usage, model: str = "") -> Charge:
        """What ``usage`` costs where ``model`` answered; empty where that is not known, or the one that was asked.

        What a backend of whom it is known states of its own answer is believed before a published price, and where
        there is none; never before the policy file's, and never a zero.
        """
        if self._charged is None or self._charged[0] is not usage or self._charged[1] != model:
            self._charged, self._charge = (usage, model), self._reckoned(usage, self._price(model))
        return self._charge

    def _price(self, model: str) -> Price | None:
        asked = self._candidate
        return asked.price if model in {"", asked.model} else self._book.answered(self._facts, asked.price, model)

    def _reckoned(self, usage: Usage, price: Price | None) -> Charge:
        stated_usd = usage.stated_usd
        if stated_usd and self._facts.states_cost and (price is None or price.source != "policy"):
            doubts = (CostDoubt.ESTIMATED_USAGE,) if usage.estimated else ()
            return Charge(_believable(stated_usd), "stated", doubts)
        zero = (CostDoubt.STATED_ZERO,) if stated_usd == 0 and stated_usd is not None else ()
        if price is None:
            return Charge(None, "", zero)
        charge = price.charge(usage, unix_s=self._unix_s(price), service_tier=self._tier(price))
        assumed = (CostDoubt.ASSUMED_PRICE,) if price.source == "assumed" else ()
        if assumed or (zero and charge.usd):
            return Charge(charge.usd, charge.source, charge.doubts + assumed + (zero if charge.usd else ()))
        return charge

    def _unix_s(self, price: Price) -> float | None:
        """When the attempt began, for a price that goes by the time of the day."""
        arrival = self._request.arrival
        return arrival.received_unix_s + self._started_s - arrival.received_s if price.hours else None

    def _tier(self, price: Price) -> str:
        """The tier of service that the client asked for, where the price knows any."""
        if not price.service_tiers:
            return ""
        return bytes(self._request.raw.get("service_tier", Raw(b""))).decode(errors="replace").strip('" ')


def _believable(usd: Decimal) -> Decimal | None:
    """In whole pico-dollars."""
    return round(usd, 12).normalize() if 0 <= usd <= _MOST_STATED_USD else None
