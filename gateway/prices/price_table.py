"""Which price holds for each backend and model of a policy, and where each comes from."""

from collections.abc import Iterator, Mapping
from decimal import Decimal

from msgspec import Struct

from gateway.price import Price
from gateway.prices.price_book import PriceBook
from gateway.rules.world import World

_COLUMNS = (
    ("input", "input_usd_per_mtok"),
    ("cached", "cached_input_usd_per_mtok"),
    ("written", "cache_write_usd_per_mtok"),
    ("output", "output_usd_per_mtok"),
    ("reasoning", "reasoning_usd_per_mtok"),
    ("request", "request_usd"),
)
_BY_PIECE = (
    ("minute", "audio_usd_per_minute"),
    ("mchar", "speech_usd_per_mchar"),
    ("search", "search_usd"),
    ("document", "document_usd"),
    ("audio in", "audio_input_usd_per_mtok"),
    ("audio out", "audio_output_usd_per_mtok"),
    ("image in", "image_input_usd_per_mtok"),
    ("image out", "image_output_usd_per_mtok"),
)
_SOURCES = {
    "policy": "policy file or preset",
    "engine": "usd_per_hour, at the speeds measured at load",
    "": "unknown",
}


class PricedModel(Struct, frozen=True, kw_only=True):
    """A model at a backend. ``price`` is ``None`` where nobody says; ``origin`` says in words where it comes from.

    Of one that is ``stated`` each answer says what it costs: of a price that nobody knows beforehand, afterwards.
    """

    backend: str
    model: str
    price: Price | None
    origin: str
    stated: bool = False

    @property
    def unknown(self) -> bool:
        """Whether nobody will know what its answers cost."""
        return self.price is None and not self.stated

    @property
    def conditions(self) -> tuple[str, ...]:
        """Under which it is otherwise."""
        if self.price is None:
            return ()
        longer = (f"prompt > {tier.above_prompt_tokens}" for tier in self.price.tiers)
        hours = (f"{hours.from_utc}-{hours.until_utc} UTC" for hours in self.price.hours)
        return (*hours, *longer, *self.price.service_tiers)

    @property
    def by_piece(self) -> tuple[str, ...]:
        """What else has a price: a minute, a picture of each kind, tokens of sound and pictures."""
        if self.price is None:
            return ()
        each = self.price.image_usd
        pictures = each if isinstance(each, Mapping) else {"": each}
        amounts = [(f"image {kind}".rstrip(), usd) for kind, usd in pictures.items()]
        amounts += [(name, getattr(self.price, field)) for name, field in _BY_PIECE]
        return tuple(f"{name} {_shown(usd)}" for name, usd in amounts if usd)


def priced_models(world: World, book: PriceBook) -> Iterator[PricedModel]:
    """All models that backends list, and those that routes name at them, in the order of the file."""
    for name, backend in world.backends.items():
        facts = backend.facts()
        routed = [
            target.model
            for route in world.routes
            for target in route.targets
            if target.backend == name and target.model
        ]
        for model in dict.fromkeys((*facts.models, *routed)):
            price = book.price(facts, model)
            source = price.source if price is not None else ""
            if source == "published":
                origin = f"{facts.price_list}'s list ({book.published.origin})"
            elif price is None and facts.states_cost:
                origin = "each answer says what it costs"
            else:
                origin = _SOURCES[source]
            yield PricedModel(backend=name, model=model, price=price, origin=origin, stated=facts.states_cost)


def table_lines(models: list[PricedModel]) -> Iterator[str]:
    """The table, in US dollars per million tokens; ``-`` where a class has no price of its own."""
    head = ["backend", "model", *(name for name, _ in _COLUMNS), "by the piece", "from", "otherwise at"]
    rows = [[*_cells(model), model.origin, ", ".join(model.conditions)] for model in models]
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
    for row in [head, *rows]:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cells(model: PricedModel) -> list[str]:
    price = model.price
    by_token = None if price is None or price.only_by_units else price
    amounts = [getattr(by_token, field, None) for _, field in _COLUMNS]
    return [model.backend, model.model, *(_shown(amount) for amount in amounts), ", ".join(model.by_piece) or "-"]


def _shown(usd: Decimal | None) -> str:
    return "-" if usd is None else f"{usd.normalize():f}"
