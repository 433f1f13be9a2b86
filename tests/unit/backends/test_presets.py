from decimal import Decimal

import pytest

from backends._base_url import check_base_url
from backends._models import CAPABILITIES
from backends._presets import preset_named, presets
from gateway.price import Price
from gateway.rules.plugins import build

EXPECTED = {
    "openai",
    "vllm",
    "sglang",
    "groq",
    "cerebras",
    "deepseek",
    "mistral",
    "xai",
    "together",
    "fireworks",
    "baseten",
    "deepinfra",
    "openrouter",
    "google",
    "cohere",
    "ollama",
    "llama_server",
    "jina",
}
"""Those for ``openai_compatible``."""


def test_the_presets() -> None:
    """Every provider that the documentation names is there."""
    assert EXPECTED == {name for name, preset in presets().items() if preset.use == "openai_compatible"}


def test_a_provider_with_a_backend_of_its_own_says_so() -> None:
    """Its preset is no use to the one for OpenAI's API, whose requests it would not understand."""
    assert "https://api.anthropic.com/v1" == preset_named("anthropic", use="anthropic").base_url
    with pytest.raises(ValueError, match="`use: anthropic`"):
        preset_named("anthropic")


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_preset_is_whole(name: str) -> None:
    """A preset has a plain address, serves something, and lacks only what there is a word for."""
    preset = preset_named(name)
    check_base_url(preset.base_url)
    assert preset.operations
    assert preset.lacks <= CAPABILITIES


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_only_a_server_of_ones_own_needs_no_key(name: str) -> None:
    """A provider on the internet is reached over TLS and with a key; a server on this machine with neither."""
    preset = preset_named(name)
    assert preset.base_url.startswith("https://") == bool(preset.api_key_env)


OWN = sorted(name for name in EXPECTED if not preset_named(name).api_key_env)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_only_a_server_of_ones_own_has_a_price_before_one_is_said(name: str) -> None:
    """Its machine is paid for. What a provider charges is the policy file's to say: it changes."""
    free = Price(input_usd_per_mtok=Decimal(0), output_usd_per_mtok=Decimal(0))
    assert (free if name in OWN else None) == preset_named(name).price


@pytest.mark.parametrize("name", OWN)
def test_a_price_in_the_policy_file_goes_before_that_of_the_preset(name: str) -> None:
    """A model's own price counts for it; listed or not, all others have the preset's."""
    price = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 2}
    spec = {"use": "openai_compatible", "preset": name, "models": {"own": {"price": price}, "other": None}}
    facts = build("backend", spec, where="backends.a").facts()
    own, other, unlisted = facts.models["own"].price, facts.models["other"].price, facts.unlisted.price
    assert Decimal(1) == own.input_usd_per_mtok
    assert preset_named(name).price == other == unlisted


def test_a_typing_error_is_answered_with_what_was_meant() -> None:
    """An unknown name says which is close, and which there are."""
    with pytest.raises(ValueError, match=r"`preset`: there is no `grok`; did you mean `groq`\? there is openai, vllm"):
        preset_named("grok")
