"""What tokens say: text, thoughts and calls, and how many characters are settled."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedded_engine.stops import StopStrings
from embedded_engine.tools.families import DEFAULT, FAMILIES
from embedded_engine.tools.reader import CallReader
from embedded_engine.transcript import Said, Transcript
from embedded_engine.vocabulary import Vocabulary
from tests.unit.embedded_engine.toy import BOS, ToyKernels

VOCABULARY = Vocabulary(ToyKernels())
CALL = b'<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'


def _transcript(*stops: str, **parts: Any) -> Transcript:
    return Transcript(VOCABULARY, StopStrings(stops), **parts)


def _feed(transcript: Transcript, raw: bytes | list[int]) -> Said:
    said = Said()
    for token in raw:
        if transcript.ended is None:
            said += transcript.feed(token)
    said += transcript.finish()
    return said


def _reader() -> CallReader:
    return CallReader(DEFAULT, ["f"], eager=True)


@settings(max_examples=60)
@given(st.text(max_size=20))
def test_without_anything_to_part_off_all_text_is_said(text: str) -> None:
    """And every character is settled at the end."""
    transcript = _transcript()
    assert text == _feed(transcript, text.encode()).text
    assert transcript.characters_read == transcript.characters_shown == len(text)


def test_characters_that_are_held_back_are_not_settled() -> None:
    """Half a stop string; at a match, from its beginning on."""
    transcript = _transcript("END")
    said = [transcript.feed(token) for token in b"ab EN"]
    assert "ab " == "".join(it.text for it in said)
    assert (5, 3) == (transcript.characters_read, transcript.characters_shown)
    transcript.feed(ord("D"))
    assert ("stop", 3) == (transcript.ended, transcript.characters_shown)
    assert not transcript.finish()


def test_half_a_call_is_not_settled_and_a_whole_one_is() -> None:
    """Its marks are nobody's text, but they are dealt with."""
    transcript = _transcript(calls=_reader())
    said = Said()
    for token in b"So: " + CALL[:20]:
        said += transcript.feed(token)
    assert ("So:", 4) == (said.text, transcript.characters_shown)
    for token in CALL[20:]:
        said += transcript.feed(token)
    said += transcript.finish()
    assert ("So:", 1, "f") == (said.text, transcript.calls, said.calls[0].name)
    assert transcript.characters_read == transcript.characters_shown


def test_stop_strings_end_text_and_not_arguments() -> None:
    """A call that holds one is a call; text that holds one ends, and what comes after it is not called."""
    assert 1 == len({piece.index for piece in _feed(_transcript("name", calls=_reader()), CALL).calls})
    said = _feed(_transcript("STOP", calls=_reader()), b"a STOP " + CALL)
    assert ("a ", []) == (said.text, said.calls)


def test_a_control_token_that_marks_calls_is_read() -> None:
    """It adds nothing to the text of a model that calls nothing."""
    mistral = next(family for family in FAMILIES if family.name == "mistral")
    tokens = [BOS, *b'[{"name": "f", "arguments": {}}]']
    reader = CallReader(mistral, ["f"], eager=True)
    said = _feed(_transcript(calls=reader, marks={BOS: b"[TOOL_CALLS]"}), tokens)
    assert ("", "f") == (said.text, said.calls[0].name)
    assert '[{"name"' == _feed(_transcript(), tokens).text[:8]


@pytest.mark.parametrize("said", [Said(text="x"), Said(reasoning="x"), Said(calls=[])])
def test_what_says_nothing_is_false(said: Said) -> None:
    """So that no empty event goes out."""
    assert bool(said) is bool(said.text or said.reasoning)
