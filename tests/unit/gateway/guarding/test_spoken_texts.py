"""Whole transcripts as guards see them, and what goes out of them."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.guarding.spoken_texts import PlainTexts, SpokenTexts, spoken_texts

SECRETS = re.compile(r"\b[0-9]{4}([ -][0-9]{4})+\b|\S+@\S+\.[a-z]+")
JSON = "application/json"


def _redacted(body: bytes, content_type: str = JSON) -> bytes:
    texts = spoken_texts(body, content_type)
    assert not texts.unreadable
    return texts.resaid(body, [SECRETS.sub("[x]", text.text) for text in texts.transcript.texts])


def _after(**fields: Any) -> Any:
    return msgspec.json.decode(_redacted(msgspec.json.encode(fields)))


def _words(*words: str) -> list[dict[str, Any]]:
    return [{"word": word, "start": at, "end": at + 1} for at, word in enumerate(words)]


def test_what_was_not_changed_goes_out_as_it_came() -> None:
    """Byte for byte; so do times, speakers and identifiers."""
    body = b'{"text": "Hi.", "duration":1.10, "segments": [{"id":"1234 1234","text":"Hi.","speaker":"a@b.de"}] }'
    assert body == _redacted(body)


def test_the_tokens_of_a_text_that_changed_are_dropped() -> None:
    """They tell it again."""
    after = _after(
        text="I am x@y.de", logprobs=[{"token": "x@y.de"}], segments=[{"text": "I am x@y.de", "tokens": [1]}]
    )
    assert {"text": "I am [x]", "logprobs": [], "segments": [{"text": "I am [x]", "tokens": []}]} == after


def test_what_stands_in_several_words_or_segments_is_found_there() -> None:
    """The first of them has what was put in its place, the others are empty; all keep their times."""
    after = _after(
        text="Card 4111 1111 now.",
        segments=[{"text": " Card 4111", "words": _words("Card", "4111")}, {"text": " 1111 now."}],
        words=_words("Card", "4111", "1111", "now"),
    )
    assert "Card [x] now." == after["text"]
    assert [" Card [x]", " now."] == [segment["text"] for segment in after["segments"]]
    assert _words("Card", "[x]", "", "now") == after["words"]
    assert _words("Card", "") == after["segments"][0]["words"]


def test_what_the_text_lost_no_word_tells() -> None:
    """Words come without hyphens and full stops, so that a guard may not find in them what it finds in the text."""
    after = _after(text="Card 4111-1111 now.", words=_words("Card", "4111", "...", "1111", "now"))
    assert ("Card [x] now.", _words("Card", "", "...", "", "now")) == (after["text"], after["words"])


def test_members_that_only_some_providers_have_are_seen() -> None:
    """At any depth, as texts or lists of them."""
    after = _after(results=[{"alternatives": [{"transcript": "x@y.de"}]}], notes=["4111", "1111"])
    assert {"results": [{"alternatives": [{"transcript": "[x]"}]}], "notes": ["[x]", ""]} == after


@pytest.mark.parametrize("kind", ["text/plain; charset=utf-8", "text/vtt", "application/x-subrip"])
def test_a_body_that_is_no_json_is_one_text(kind: str) -> None:
    """Subtitles too."""
    cue = "1\n00:00:00,000 --> 00:00:07,000\nI äm %s\n"
    assert (cue % "[x]").encode() == _redacted((cue % "x@y.de").encode(), kind)


def test_json_that_says_it_is_text_is_json() -> None:
    """An escape hides nothing."""
    assert {"text": "[x]"} == msgspec.json.decode(_redacted(rb'{"text":"x\u0040y.de"}', "text/plain"))
    assert isinstance(spoken_texts(b"{no object", "text/plain"), PlainTexts)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("xäy@y.de".encode("latin-1"), "text/plain"),
        ("x@y.de".encode("utf-16-le"), "text/plain"),
        (b"+AHg-@y.de", "text/plain; charset=utf-7"),
        (b'{"duration":1,"usage":{"type":"x@y.de"}}', JSON),
    ],
)
def test_what_nobody_can_read_is_said_to_be_so(body: bytes, kind: str) -> None:
    """What happens then is the policy file's to say."""
    assert spoken_texts(body, kind).unreadable


def test_an_empty_transcript_is_one() -> None:
    """Silence was heard."""
    assert not SpokenTexts({"text": ""}).unreadable
    assert not spoken_texts(b"", "text/plain").unreadable


TOLD = st.lists(st.sampled_from(["a", "the", "1234", "x@y.de", "x@y.de,", "4111", "1111", "4111-1111."]), min_size=1)


@given(TOLD, st.integers(1, 9), st.sampled_from(["", " "]))
def test_nothing_tells_what_the_guard_took_out(told: list[str], size: int, lead: str) -> None:
    """However it is cut into segments and words."""
    segments = [" ".join(told[at : at + size]) for at in range(0, len(told), size)]
    words = [word for one in told for word in one.strip(".,").split("-")]
    after = _after(
        text=" ".join(told),
        segments=[{"text": lead + segment} for segment in segments],
        words=[{"word": lead + word} for word in words],
    )
    said = [segment["text"].strip() for segment in after["segments"]], [word["word"].strip() for word in after["words"]]
    for again in (after["text"], *(" ".join(filter(None, pieces)) for pieces in said)):
        assert not SECRETS.search(again)
    assert (len(segments), len(words)) == (len(after["segments"]), len(after["words"]))
