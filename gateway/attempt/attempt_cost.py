"""What one attempt costs: by whose price, and how sure that is."""

from decimal import Decimal

from msgspec import Raw, Struct

from gateway.facts import BackendFacts
from gateway.price import NO_CHARGE, Charge, CostDoubt, Price, Usage
from gateway.prices.price_book import PriceBook
from gateway.types import Candidate, ChatRequest

_MOST_STATED_USD = 100_000
"""An upstream that says more of one answer is not believed."""


class AttemptCost(Struct, eq=False):
    """Reckons once for the answer's header and the ledger.

    Attributes:
        request: what was asked.
        candidate: who was asked, with the price that the decision was made by.
        facts: of its backend.
        book: the prices of other models that may answer there.
        started_s: when the attempt began, on the monotonic clock.
    """

    request: ChatRequest
    candidate: Candidate
    facts: BackendFacts
    book: PriceBook
    started_s: float
    _usage: Usage | None = None
    _model: str = ""
    _charge: Charge = NO_CHARGE

    def of(self, usage: Usage, model: str = "") -> Charge:
        """What ``usage`` costs where ``model`` answered; empty where that is not known, or the one that was asked.

        What a backend of whom it is known states of its own answer is believed before a published price, and where
        there is none; never before the policy file's, and never a zero.
        """
        if self._usage is not usage or self._model != model:
            self._usage, self._model, self._charge = usage, model, self._reckoned(usage, self._price(model))
        return self._charge

    def _price(self, model: str) -> Price | None:
        asked = self.candidate
        return asked.price if not model or model == asked.model else self.book.answered(self.facts, asked.price, model)

    def _reckoned(self, usage: Usage, price: Price | None) -> Charge:
        stated_usd = usage.stated_usd
        if stated_usd and self.facts.states_cost and (price is None or price.source != "policy"):
            doubts = (CostDoubt.ESTIMATED_USAGE,) if usage.estimated else ()
            return Charge(_believable(stated_usd), "stated", doubts)
        zero = (CostDoubt.STATED_ZERO,) if stated_usd is not None and stated_usd == 0 else ()
        if price is None:
            return Charge(None, "", zero)
        if price.conditional:
            charge = price.charge(usage, unix_s=self._unix_s(price), service_tier=self._tier(price))
        else:
            charge = price.charge(usage)
        if price.source != "assumed" and not zero:
            return charge
        assumed = (CostDoubt.ASSUMED_PRICE,) if price.source == "assumed" else ()
        return Charge(charge.usd, charge.source, charge.doubts + assumed + (zero if charge.usd else ()))

    def _unix_s(self, price: Price) -> float | None:
        """When the attempt began, for a price that goes by the time of the day."""
        arrival = self.request.arrival
        return arrival.received_unix_s + self.started_s - arrival.received_s if price.hours else None

    def _tier(self, price: Price) -> str:
        """The tier of service that the client asked for, where the price knows any."""
        if not price.service_tiers:
            return ""
        return bytes(self.request.raw.get("service_tier", Raw(b""))).decode(errors="replace").strip('" ')


def _believable(usd: Decimal) -> Decimal | None:
    """In whole pico-dollars."""
    return round(usd, 12).normalize() if 0 <= usd <= _MOST_STATED_USD else None
