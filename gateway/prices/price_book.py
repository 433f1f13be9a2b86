"""What a model costs at a backend: as the policy file says, else as the provider publishes it, else nobody knows."""

from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.facts import BackendFacts
from gateway.price import Price

if TYPE_CHECKING:  # read only where a backend leaves it to its provider's list
    from gateway.prices.published import PublishedPrice, PublishedPrices

PRICES_FILE = "prices.json.zst"
"""In the state directory: a list that was fetched, in the place of the one that is shipped."""


class PriceBook:
    """Prices by backend and model. ``file`` is a fetched list, where there is one."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file

    @cached_property
    def published(self) -> "PublishedPrices":
        """The providers' own lists."""
        found: PublishedPrices = import_module("gateway.prices.published").PublishedPrices(self._file)
        return found

    def price(self, facts: BackendFacts, model: str) -> Price | None:
        """What the backend charges for the model; ``None`` where nobody says."""
        listed = facts.models.get(model, facts.unlisted).price
        if listed is None and model in facts.free:
            return _free()
        if listed is not None or not facts.price_list:
            return listed
        return self.published.find(facts.price_list, model)

    def answered(self, facts: BackendFacts, asked: Price | None, model: str) -> Price | None:
        """The price of an answer that came from ``model`` where ``asked`` is that of the one that was asked for.

        A price in the policy file holds for whatever answers under that name, unless the file has one for the model
        that did. Of a published list it is the price of the one that answered.
        """
        known = facts.models.get(model)
        if known is not None and known.price is not None:
            return known.price
        if not facts.price_list or (asked is not None and asked.source not in {"published", "assumed"}):
            return asked
        return self.published.find(facts.price_list, model) or asked


@cache
def _free() -> "PublishedPrice":
    """Of what costs nothing."""
    made: PublishedPrice = import_module("gateway.prices.published").PublishedPrice()
    return made
