import pytest

from backends._base_url import check_base_url
from backends._models import CAPABILITIES
from backends._presets import preset_named, presets

EXPECTED = {
    "openai",
    "vllm",
    "sglang",
    "groq",
    "cerebras",
    "deepseek",
    "together",
    "fireworks",
    "baseten",
    "deepinfra",
    "openrouter",
    "ollama",
    "llama_server",
}


def test_the_presets() -> None:
    """Every provider that the documentation names is there."""
    assert EXPECTED == set(presets())


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


def test_a_typing_error_is_answered_with_what_was_meant() -> None:
    """An unknown name says which is close, and which there are."""
    with pytest.raises(ValueError, match=r"`preset`: there is no `grok`; did you mean `groq`\? there is openai, vllm"):
        preset_named("grok")
