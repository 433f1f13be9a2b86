from decimal import Decimal
from typing import Any

import pytest

from backends._listed_price import ListedPrice
from gateway.errors import ConfigurationError
from gateway.price import Charge, CostDoubt, Price, Usage
from gateway.rules.plugins import build
from gateway.units import Units, Work

USD = Decimal


def _price(**usd: Any) -> Price:
    return Price(**{name: value if isinstance(value, dict) else USD(value) for name, value in usd.items()})


def _units(work: Work = Work.READING, **units: Any) -> Usage:
    tokens = {name: units.pop(name) for name in ("prompt_tokens", "output_tokens", "cached_tokens") if name in units}
    return Usage(**tokens, units=Units(work=work, **units))


TRANSCRIBE = _price(input_usd_per_mtok="2.5", output_usd_per_mtok="10", audio_input_usd_per_mtok="6")
PICTURES = _price(image_usd={"1024x1024": USD("0.04"), "1024x1024 hd": USD("0.08"), "any": USD("0.02")})
DRAW, HEAR, SPEAK, RANK = Work.DRAWING, Work.LISTENING, Work.SPEAKING, Work.RANKING

KNOWN: list[tuple[Price, Usage, str]] = [
    (_price(audio_usd_per_minute="0.006"), _units(HEAR, audio_s=USD("7")), "0.0007"),
    (_price(audio_usd_per_minute="0.006"), _units(HEAR, audio_s=USD("12.48")), "0.001248"),
    # Groq's 0.04 an hour: no decimal fraction a minute, and right to the pico-dollar all the same.
    (_price(audio_usd_per_minute=USD("0.04") / 60), _units(HEAR, audio_s=USD("12.48")), "0.000138666667"),
    (_price(audio_usd_per_minute=USD("0.04") / 60), _units(HEAR, audio_s=USD(3600)), "0.04"),
    (_price(speech_usd_per_mchar="15"), _units(SPEAK, characters=1204), "0.01806"),
    (PICTURES, _units(DRAW, images=2, size="1024x1024", quality="hd"), "0.16"),
    (PICTURES, _units(DRAW, images=2, size="1024x1024", quality="standard"), "0.08"),
    (PICTURES, _units(DRAW, images=1, size="512x512"), "0.02"),
    (_price(image_usd="0.03"), _units(DRAW, images=3), "0.09"),
    (_price(search_usd="0.002", request_usd="0.0001"), _units(RANK, searches=2, documents=150), "0.0041"),
    (_price(document_usd="0.000025"), _units(RANK, documents=150), "0.00375"),
    # gpt-4o-transcribe: sound and text of a prompt each at its own price.
    (TRANSCRIBE, _units(HEAR, prompt_tokens=50, output_tokens=20, counted=True, audio_tokens=45), "0.0004825"),
    # gpt-image-1.5: pictures in, pictures and thoughts out.
    (
        _price(
            input_usd_per_mtok="5", output_usd_per_mtok="10", image_input_usd_per_mtok="8",
            image_output_usd_per_mtok="32", cached_input_usd_per_mtok="1.25",
        ),
        _units(DRAW, prompt_tokens=400, output_tokens=1100, counted=True, image_tokens=388, output_image_tokens=1056),
        "0.037396",
    ),
    (TRANSCRIBE, _units(prompt_tokens=8, counted=True), "0.00002"),
    (_price(input_usd_per_mtok="0", output_usd_per_mtok="0"), _units(HEAR), "0"),
    (_price(request_usd="0.01"), _units(DRAW, images=4), "0.01"),
    # A price for other work says nothing of this one, and tokens have theirs.
    (
        _price(input_usd_per_mtok="1", output_usd_per_mtok="0", image_usd="0.04"),
        _units(RANK, prompt_tokens=56, counted=True),
        "0.000056",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("price", "usage", "usd"), KNOWN)
def test_each_thing_is_paid_once_at_its_own_price(price: Price, usage: Usage, usd: str) -> None:
    """Right to the pico-dollar."""
    assert Charge(USD(usd).normalize(), "policy") == price.charge(usage)
    assert USD(usd) == price.cost_usd(usage)


UNKNOWN: list[tuple[Price, Usage]] = [
    (_price(audio_usd_per_minute="0.006"), _units(HEAR)),
    (_price(image_usd={"1024x1024": USD("0.04")}), _units(DRAW, images=1, size="1792x1024")),
    (_price(image_usd={"1024x1024": USD("0.04")}), _units(DRAW, images=1)),
    (_price(search_usd="0.002"), _units(RANK, documents=3)),
    # Priced by tokens, and nobody counted any; or by the piece, and other work is done.
    (TRANSCRIBE, _units(HEAR, audio_s=USD(7))),
    (_price(audio_input_usd_per_mtok="6"), _units(HEAR, audio_s=USD(7))),
    (_price(speech_usd_per_mchar="15"), _units(prompt_tokens=5, counted=True)),
    (_price(speech_usd_per_mchar="15"), Usage(prompt_tokens=5, output_tokens=5)),
    (TRANSCRIBE, _units(DRAW, prompt_tokens=5, counted=True, elsewhere=True)),
]


@pytest.mark.parametrize(("price", "usage"), UNKNOWN)
def test_what_nobody_counted_costs_nobody_knows_what(price: Price, usage: Usage) -> None:
    """Unknown, which is not free."""
    assert Charge(None) == price.charge(usage)


def test_of_a_forecast_what_is_known_is_reserved() -> None:
    """For limits and decisions: the part that is known, without which nothing could be reserved at all."""
    price = _price(request_usd="0.01", audio_usd_per_minute="0.006")
    assert USD("0.01") == price.cost_usd(_units(HEAR))


def test_of_pictures_their_tokens_are_foreseen() -> None:
    """Nothing else of such an answer is, and no time to write them in."""
    price = _price(input_usd_per_mtok="5", output_usd_per_mtok="10", image_output_usd_per_mtok="32")
    assert USD("0.033792") == price.cost_usd(_units(DRAW, images=1, counted=True, output_image_tokens=1056))


def test_of_sound_its_tokens_are_foreseen() -> None:
    """Beside those of the text that goes with it."""
    price = _price(input_usd_per_mtok="2", output_usd_per_mtok="10", audio_input_usd_per_mtok="6")
    heard = Usage(prompt_tokens=100, units=Units(work=Work.LISTENING, counted=True, audio_tokens=1000))
    assert USD("0.0062") == price.cost_usd(heard)


def test_a_count_of_our_own_is_marked() -> None:
    """As of texts."""
    usage = Usage(estimated=True, units=Units(work=SPEAK, characters=1000))
    assert (CostDoubt.ESTIMATED_USAGE,) == _price(speech_usd_per_mchar="15").charge(usage).doubts


def _listed(**price: Any) -> ListedPrice:
    backend = build("backend", {"use": "fake", "models": {"m": {"price": price}}}, where="backends.x")
    listed = backend.facts().models["m"].price
    assert isinstance(listed, ListedPrice)
    return listed


def test_what_is_paid_by_the_piece_alone_needs_no_price_for_tokens() -> None:
    """One amount for all pictures, or one for each kind; and the digits are those that were written."""
    assert (USD(0), USD("0.006")) == (
        _listed(audio_usd_per_minute=0.006).input_usd_per_mtok,
        _listed(audio_usd_per_minute=0.006).audio_usd_per_minute,
    )
    assert USD("0.04") == _listed(image_usd=0.04).image_usd
    assert {"1024x1024": USD("0.04")} == _listed(image_usd={"1024x1024": 0.04}).image_usd


@pytest.mark.parametrize(
    ("price", "words"),
    [
        ({"audio_input_usd_per_mtok": 6}, "`input_usd_per_mtok` must be given"),
        ({"input_usd_per_mtok": 1, "image_usd": 0.04}, "`output_usd_per_mtok` must be given"),
        ({"image_usd": -1}, "`image_usd` must be an amount"),
        ({"image_usd": {"hd": -1}}, "`image_usd` must be an amount"),
        ({"audio_usd_per_minute": 1e30}, "`audio_usd_per_minute` must be an amount"),
        ({"audio_usd_per_second": 1}, "audio_usd_per_second"),
    ],
)
def test_a_mistake_in_such_a_price_is_refused(price: dict[str, Any], words: str) -> None:
    """By name, when the file is read."""
    with pytest.raises(ConfigurationError, match=words):
        _listed(**price)


def test_the_ledgers_words() -> None:
    """Nothing that is unknown is in them, and a zero that was said is."""
    units = Units(work=DRAW, images=2, size="1024x1024", quality="hd", image_tokens=9, documents=0)
    assert "images=2 documents=0 size=1024x1024 quality=hd image_tokens=9" == units.words()
    assert "" == Units().words()
