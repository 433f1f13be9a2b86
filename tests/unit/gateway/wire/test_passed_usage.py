from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.price import Usage
from gateway.units import Units, Work
from gateway.wire.passed_usage import PassedAnswer, usage_said

HEARD, DRAWN, RANKED = (
    Units(work=Work.LISTENING),
    Units(work=Work.DRAWING, images=1),
    Units(work=Work.RANKING, documents=3),
)
SPOKEN = Units(work=Work.SPEAKING, characters=5)


def _said(asked: Units, **answer: Any) -> Usage:
    return usage_said(asked, msgspec.json.decode(msgspec.json.encode(answer), type=PassedAnswer))


TOKENS = {"input_tokens": 50, "output_tokens": 20, "total_tokens": 70}
CASES: list[tuple[Units, dict[str, Any], Usage]] = [
    # OpenAI's transcriptions: seconds of whisper-1, tokens of the others, and what a verbose answer says beside both.
    (
        HEARD,
        {"text": "hi", "usage": {"type": "duration", "seconds": 7}},
        Usage(units=Units(work=Work.LISTENING, audio_s=Decimal(7))),
    ),
    (HEARD, {"text": "hi", "duration": 12.48}, Usage(units=Units(work=Work.LISTENING, audio_s=Decimal("12.48")))),
    (HEARD, {"text": "hi", "duration": "3.5"}, Usage(units=Units(work=Work.LISTENING, audio_s=Decimal("3.5")))),
    (HEARD, {"duration": 9, "usage": {"seconds": 0}}, Usage(units=Units(work=Work.LISTENING, audio_s=Decimal(0)))),
    (
        HEARD,
        {"usage": {"type": "tokens", **TOKENS, "input_token_details": {"audio_tokens": 45, "text_tokens": 5}}},
        Usage(prompt_tokens=50, output_tokens=20, units=Units(work=Work.LISTENING, counted=True, audio_tokens=45)),
    ),
    (HEARD, {"text": "hi"}, Usage(units=HEARD)),
    # Mistral's seconds stand beside the tokens.
    (
        HEARD,
        {"usage": {"prompt_audio_seconds": 203, "prompt_tokens": 4, "completion_tokens": 635, "total_tokens": 3945}},
        Usage(
            prompt_tokens=4,
            output_tokens=635,
            units=Units(work=Work.LISTENING, counted=True, audio_s=Decimal(203)),
        ),
    ),
    # Its pictures: how many there are, of which kind, and tokens where the model counts them.
    (
        DRAWN,
        {"data": [{}, {}], "size": "1024x1024", "quality": "high", "background": "opaque"},
        Usage(units=Units(work=Work.DRAWING, images=2, size="1024x1024", quality="high")),
    ),
    (
        DRAWN,
        {
            "data": [{}],
            "usage": {
                **TOKENS,
                "input_tokens_details": {"image_tokens": 40, "text_tokens": 10},
                "output_tokens_details": {"image_tokens": 15, "text_tokens": 5},
            },
        },
        Usage(
            prompt_tokens=50,
            output_tokens=20,
            units=Units(work=Work.DRAWING, images=1, counted=True, image_tokens=40, output_image_tokens=15),
        ),
    ),
    # Its older models do not say of which kind the tokens of a picture are; nor is that said of speech.
    (
        DRAWN,
        {"data": [{}], "usage": {**TOKENS, "input_tokens_details": {"image_tokens": 40, "text_tokens": 10}}},
        Usage(
            prompt_tokens=50,
            output_tokens=20,
            units=Units(work=Work.DRAWING, images=1, counted=True, image_tokens=40, output_image_tokens=20),
        ),
    ),
    (
        SPOKEN,
        {"type": "speech.audio.done", "usage": TOKENS},
        Usage(
            prompt_tokens=50,
            output_tokens=20,
            units=Units(work=Work.SPEAKING, characters=5, counted=True, output_audio_tokens=20),
        ),
    ),
    (
        DRAWN,
        {"data": [{}], "svg_usage": {"model": "other", "input_tokens": 1}},
        Usage(units=Units(work=Work.DRAWING, images=1, elsewhere=True)),
    ),
    # Rerankers: Cohere's search units, the sum of Jina and vLLM.
    (
        RANKED,
        {"results": [], "meta": {"billed_units": {"search_units": 2}}},
        Usage(units=Units(work=Work.RANKING, documents=3, searches=2)),
    ),
    (
        RANKED,
        {"results": [], "usage": {"total_tokens": 56}},
        Usage(prompt_tokens=56, units=Units(work=Work.RANKING, documents=3, counted=True)),
    ),
    # What was known beforehand stays where the answer says nothing.
    (SPOKEN, {"type": "speech.audio.done"}, Usage(units=SPOKEN)),
    # What it says that it costs, as OpenRouter does.
    (SPOKEN, {"usage": {"cost": 0.000508}}, Usage(stated_usd=Decimal("0.000508"), units=SPOKEN)),
]


@pytest.mark.parametrize(("asked", "answer", "expected"), CASES)
def test_what_an_answer_says_it_took(asked: Units, answer: dict[str, Any], expected: Usage) -> None:
    """In each provider's own shape."""
    assert expected == _said(asked, **answer)


@pytest.mark.parametrize("seconds", [-1, 1e300, "many", None, True, [], "nan", 10**400])
def test_seconds_that_cannot_be_are_as_good_as_unsaid(seconds: Any) -> None:
    """What a bill is made of is never a guess."""
    assert Usage(units=HEARD) == usage_said(HEARD, PassedAnswer(duration=seconds))


def test_no_token_is_of_two_kinds_and_none_is_more_than_there_are() -> None:
    """An upstream's sums are held against each other."""
    details = {"audio_tokens": 40, "image_tokens": 40, "cached_tokens": 99}
    usage = _said(HEARD, usage={**TOKENS, "input_tokens_details": details})
    assert usage.units is not None
    assert (40, 10, 50) == (usage.units.audio_tokens, usage.units.image_tokens, usage.cached_tokens)


anything: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
names = st.sampled_from(
    ["seconds", "input_tokens", "prompt_tokens", "output_tokens", "total_tokens", "cost", "input_token_details"]
)


@given(usage=st.dictionaries(names, anything) | anything, duration=anything, meta=anything, size=anything)
def test_nothing_that_an_answer_says_breaks_the_reader(usage: Any, duration: Any, meta: Any, size: Any) -> None:
    """Counts are never negative, and words stay words."""
    said = usage_said(HEARD, PassedAnswer(usage=usage, duration=duration, meta=meta, size=size))
    assert said.units is not None
    assert min(said.prompt_tokens, said.output_tokens, said.cached_tokens, said.units.audio_tokens) >= 0
    assert said.units.audio_s is None or said.units.audio_s >= 0
    assert " " not in said.units.size
