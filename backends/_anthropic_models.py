"""What Anthropic's models cost where the policy file says only half of it: its cache has fixed shares of the input."""

from dataclasses import replace
from decimal import Decimal

from backends._models import Models, listed
from gateway.facts import ModelFacts
from gateway.price import Price

# https://docs.claude.com/en/docs/build-with-claude/prompt-caching#pricing: marks of five minutes, the default
_READ_SHARE = Decimal("0.1")
_WRITE_SHARE = Decimal("1.25")


def models_of(models: Models, unsaid: ModelFacts) -> dict[str, ModelFacts]:
    """The facts of each model, its price made whole. ``unsaid`` has what holds where a model does not say."""
    known = listed(models, unsaid=unsaid)
    return {name: replace(facts, price=_whole(facts.price), carries=unsaid.carries) for name, facts in known.items()}


def _whole(price: Price | None) -> Price | None:
    if price is None:
        return None
    read, write = price.cached_input_usd_per_mtok, price.cache_write_usd_per_mtok
    return replace(
        price,
        cached_input_usd_per_mtok=price.input_usd_per_mtok * _READ_SHARE if read is None else read,
        cache_write_usd_per_mtok=price.input_usd_per_mtok * _WRITE_SHARE if write is None else write,
    )
