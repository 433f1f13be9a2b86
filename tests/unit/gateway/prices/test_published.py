import logging
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gateway.price import PriceChange, PriceHours, PriceTier, Usage
from gateway.prices.genai import price_file
from gateway.prices.published import PublishedPrices, price_file_bytes

LISTED: list[dict[str, Any]] = [
    {
        "id": "acme",
        "models": [
            {
                "id": "big",
                "match": {"or": [{"equals": "big"}, {"and": [{"starts_with": "big-"}, {"contains": "Preview"}]}]},
                "prices": [
                    {"prices": {"input_mtok": 9, "output_mtok": 9}},
                    {
                        "constraint": {"start_date": "2025-01-01"},
                        "prices": {
                            "input_mtok": {"base": 2.5, "tiers": [{"start": 200000, "price": 5}]},
                            "output_mtok": {"base": 15, "tiers": [{"start": 200000, "price": 22.5}]},
                            "cache_read_mtok": 0.25,
                            "cache_write_mtok": 3.125,
                            "output_reasoning_mtok": 20,
                            "requests_kcount": 12,
                            "web_searches_kcount": 10,
                        },
                    },
                    {"constraint": {"start_date": "2999-01-01"}, "prices": {"input_mtok": 1, "output_mtok": 1}},
                ],
                "price_variants": [
                    {"when": {"processing": "batch"}, "prices": {"input_mtok": 1.25}},
                    {"when": {"processing": "batch"}, "prices": {"input_mtok": 7}},
                    {"when": {"service_tier": "default"}, "prices": {}},
                    {"when": {"route": "eu"}, "prices": {"input_mtok": 4}},
                    {
                        "when": {"service_tier": "flex"},
                        "constraint": {"start_date": "2999-01-01"},
                        "prices": {"input_mtok": 1},
                    },
                ],
            },
            {
                "id": "by-night",
                "match": {"regex": "^by-(night|day)$"},
                "prices": [
                    {"prices": {"input_mtok": 0.135, "output_mtok": 0.55}},
                    {
                        "constraint": {"start_time": "00:30:00Z", "end_time": "16:30:00Z"},
                        "prices": {"input_mtok": 0.27},
                    },
                ],
            },
            {"id": "loud", "match": {"ends_with": "-loud"}, "prices": {"input_audio_mtok": 4}},
            {"id": "nothing", "match": {"equals": "nothing"}, "prices": {}},
            {"id": "vectors", "match": {"contains": "embed"}, "prices": {"input_mtok": 0.02}},
        ],
    },
    {"id": "shop", "models": [], "fallback_model_providers": ["acme"]},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A price file of a day in 2026."""
    path = tmp_path / "prices.json.zst"
    path.write_bytes(price_file_bytes(price_file(LISTED, origin="test", made_on=date(2026, 11, 30))))
    return path


def test_a_model_has_the_price_of_the_day_with_all_its_conditions(path: Path) -> None:
    """Of several days the last that has come; what has no place in a price of ours is left out."""
    price = PublishedPrices(path).find("acme", "big")
    assert price is not None
    assert (Decimal("2.5"), Decimal(15), Decimal("0.25")) == (
        price.input_usd_per_mtok,
        price.output_usd_per_mtok,
        price.cached_input_usd_per_mtok,
    )
    assert (Decimal("3.125"), Decimal(20), Decimal("0.012")) == (
        price.cache_write_usd_per_mtok,
        price.reasoning_usd_per_mtok,
        price.request_usd,
    )
    higher = PriceTier(above_prompt_tokens=200_000, input_usd_per_mtok=Decimal(5), output_usd_per_mtok=Decimal("22.5"))
    assert ((higher,), {"batch": PriceChange(input_usd_per_mtok=Decimal("1.25"))}) == (price.tiers, price.service_tiers)
    assert "published" == price.charge(Usage(prompt_tokens=1)).source


def test_hours_of_the_day_are_kept(path: Path) -> None:
    """As changes of the price that they interrupt."""
    price = PublishedPrices(path).find("acme", "by-night")
    assert price is not None
    expected = PriceHours(from_utc="00:30", until_utc="16:30", input_usd_per_mtok=Decimal("0.27"))
    assert ((expected,), Decimal("0.135")) == (price.hours, price.input_usd_per_mtok)


@pytest.mark.parametrize(
    ("provider", "model", "known"),
    [
        ("acme", "BIG", True),
        ("acme", "big-9-preview", True),
        ("acme", "big-9", False),
        ("acme", "by-day", True),
        ("acme", "by-daylight", False),
        ("acme", "text-embed-3", True),
        ("acme", "very-loud", False),
        ("acme", "nothing", False),
        ("shop", "big", True),
        ("elsewhere", "big", False),
    ],
)
def test_a_name_is_matched_as_the_list_says(path: Path, provider: str, model: str, *, known: bool) -> None:
    """Without a price for tokens there is none, which is not a price of zero; a shop sells what others make."""
    assert known is (PublishedPrices(path).find(provider, model) is not None)


def test_names_without_end_take_no_memory_without_end(path: Path) -> None:
    """Clients choose them."""
    prices = PublishedPrices(path)
    assert all(prices.find("acme", f"unknown-{n}") is None for n in range(5000))
    assert len(prices._found) <= 1024


def test_what_is_shipped_has_the_known_providers() -> None:
    """And their models' prices are above zero."""
    prices = PublishedPrices()
    assert {"openai", "groq", "deepseek", "anthropic", "openrouter"} <= set(prices.providers)
    price = prices.find("groq", "llama-3.3-70b-versatile")
    assert price is not None
    assert price.input_usd_per_mtok > 0
    assert price.output_usd_per_mtok > 0
    assert "genai-prices" in prices.origin


@pytest.mark.parametrize("content", [b"", b"{}", b"\x28\xb5\x2f\xfd nothing"])
def test_a_file_that_is_none_is_told_and_passed_over(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Serving goes on with what was shipped."""
    path = tmp_path / "prices.json.zst"
    path.write_bytes(content)
    with caplog.at_level(logging.ERROR):
        assert PublishedPrices(path).find("groq", "llama-3.3-70b-versatile") is not None
    assert f"the price list {path} cannot be read" in caplog.text


@pytest.mark.parametrize(
    "raw",
    [
        [],
        [{"id": "acme"}],
        [{"id": "acme", "models": [{"id": "m", "match": {"sounds_like": "m"}, "prices": {"input_mtok": 1}}]}],
        [{"id": "acme", "models": [{"id": "m", "match": {"equals": "m"}, "prices": {"input_mtok": -1}}]}],
        [{"id": "acme", "models": [{"id": "m", "match": {"equals": "m"}, "prices": {"input_mtok": "much"}}]}],
        ["acme"],
    ],
)
def test_data_of_another_kind_is_refused(raw: list[Any]) -> None:
    """Before it takes the place of a list that works."""
    with pytest.raises(ValueError, match="no data of genai-prices"):
        price_file(raw, origin="test", made_on=date(2026, 11, 30))


def test_what_is_paid_by_the_piece_is_on_the_list(tmp_path: Path) -> None:
    """An hour of sound becomes sixty minutes; a condition that changes nothing of ours is no condition."""
    models: list[dict[str, Any]] = [
        {
            "id": "hears",
            "match": {"equals": "hears"},
            "prices": {"audio_hours": 0.36, "input_audio_hours": 0.36},
            "price_variants": [{"when": {"processing": "batch"}, "prices": {"input_audio_hours": 0.18}}],
        },
        {"id": "speaks", "match": {"equals": "speaks"}, "prices": {"input_mchars": 15}},
        {
            "id": "draws",
            "match": {"equals": "draws"},
            "prices": {"input_mtok": 5, "output_mtok": 40, "input_image_mtok": 10, "output_image_mtok": 60},
        },
        {"id": "lasts", "match": {"equals": "lasts"}, "prices": {"audio_hours": 3}},
    ]
    path = tmp_path / "prices.json.zst"
    listed = [{"id": "acme", "models": models}]
    path.write_bytes(price_file_bytes(price_file(listed, origin="test", made_on=date(2026, 11, 30))))
    prices = PublishedPrices(path)
    hears, speaks, draws = (prices.find("acme", name) for name in ("hears", "speaks", "draws"))
    assert hears is not None
    assert speaks is not None
    assert draws is not None
    assert (Decimal("0.006"), {}, True) == (hears.audio_usd_per_minute, hears.service_tiers, hears.only_by_units)
    assert (Decimal(15), Decimal(0)) == (speaks.speech_usd_per_mchar, speaks.input_usd_per_mtok)
    assert (Decimal(10), Decimal(60)) == (draws.image_input_usd_per_mtok, draws.image_output_usd_per_mtok)
    assert prices.find("acme", "lasts") is None
