import pytest

from backends._presets import preset_named, presets, price_list_of
from backends.openai_compatible import OpenAICompatible
from gateway.prices.price_book import PriceBook
from gateway.prices.published import PublishedPrices

MODELS = {"openai": "gpt-4o-mini", "groq": "llama-3.3-70b-versatile", "openrouter": "openai/gpt-4o-mini"}


def test_every_list_that_a_preset_names_is_there() -> None:
    """A name that nobody has would make all its prices unknown."""
    named = {preset.price_list for preset in presets().values()} - {""}
    assert named <= set(PublishedPrices().providers)


@pytest.mark.parametrize("preset", MODELS)
def test_models_of_a_known_provider_have_its_prices(preset: str) -> None:
    """Without a word in the policy file; a price there goes first, and a list can be declined."""
    model, book = MODELS[preset], PriceBook()
    found = book.price(OpenAICompatible(preset=preset, models=(model,)).facts(), model)
    assert found is not None
    assert "published" == found.source
    declined = OpenAICompatible(preset=preset, price_list="none", models=(model,))
    assert book.price(declined.facts(), model) is None


def test_who_says_what_answers_cost_is_known() -> None:
    """OpenRouter does; the policy file can say so of others, and take it back."""
    assert OpenAICompatible(preset="openrouter").facts().states_cost
    assert not OpenAICompatible(preset="openai").facts().states_cost
    assert OpenAICompatible(preset="openai", states_cost=True).facts().states_cost
    assert not OpenAICompatible(preset="openrouter", states_cost=False).facts().states_cost


def test_a_server_of_ones_own_has_no_list() -> None:
    """Its presets cost nothing per token; an address without a preset costs nobody knows what."""
    assert "" == price_list_of("", preset_named("vllm")) == price_list_of("", None)
    assert "groq" == price_list_of("groq", None)
