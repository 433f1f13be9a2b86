"""The pages that are made from the code say what the code does now."""

from tests.references import clients_table, openapi_document, presets_table
from tests.references.translation_table import PAGE, page, providers

NEEDS_NO_PLACE = {
    "background",
    "cache_control",
    "include (reasoning)",
    "max_tool_calls",
    "messages.content (redacted_thinking)",
    "messages.content (thinking)",
    "messages.content.cache_control",
    "messages.reasoning_content",
    "messages.thinking",
    "messages.thinking_blocks",
    "keep_alive",
    "metadata",
    "options.num_batch",
    "options.num_gpu",
    "options.num_keep",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning.summary",
    "safety_identifier",
    "service_tier",
    "store",
    "think (no)",
    "thinking (adaptive)",
    "thinking (disabled)",
    "thread (create)",
    "tools.cache_control",
    "user",
}
"""Fields that may stay behind without a word: no answer depends on them, or nobody but their maker could read them."""


def test_the_table_of_translations_is_current() -> None:
    """`make references` writes it anew."""
    assert page() == PAGE.read_text(encoding="utf-8")


def test_the_table_of_clients_is_current() -> None:
    """Of what each script says that it tried."""
    assert clients_table.page() == clients_table.PAGE.read_text(encoding="utf-8")


def test_the_page_of_presets_is_current() -> None:
    """Of what is known of each provider."""
    assert presets_table.page() == presets_table.PAGE.read_text(encoding="utf-8")


def test_the_openapi_document_is_current() -> None:
    """Of what a gateway serves."""
    assert openapi_document.page() == openapi_document.PAGE.read_text(encoding="utf-8")


def test_no_field_is_dropped_in_silence() -> None:
    """Of all that the clients' formats document, only what no answer depends on stays behind untold."""
    rows = [line.strip("|").split("|") for line in page().splitlines() if line.startswith("| `")]
    for column, provider in enumerate(providers(), start=1):
        silent = {row[0].strip(" `") for row in rows if row[column].strip() == "not needed"}
        assert silent <= NEEDS_NO_PLACE, provider
