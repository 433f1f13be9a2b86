from hypothesis import given
from hypothesis import strategies as st

from embedded_engine.characters import Characters


def _all(pieces: list[bytes]) -> str:
    characters = Characters()
    return "".join(map(characters.feed, pieces))


@given(st.binary(max_size=40), st.data())
def test_cutting_the_bytes_elsewhere_does_not_change_the_text(raw: bytes, data: st.DataObject) -> None:
    """Whatever the tokens' borders, the same characters come out."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    pieces = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert _all([raw]) == _all(pieces)


@given(st.text(max_size=30))
def test_good_text_comes_out_as_it_went_in(text: str) -> None:
    """Byte by byte, nothing is lost and nothing is replaced."""
    assert text == _all([bytes([byte]) for byte in text.encode()])


def test_an_emoji_in_four_tokens_is_held_until_it_is_whole() -> None:
    """No replacement character is shown for what is only a half."""
    characters = Characters()
    assert ["", "", "", "😀"] == [characters.feed(bytes([byte])) for byte in "😀".encode()]


def test_bytes_that_can_never_become_a_character_are_replaced_once_each() -> None:
    """A lone continuation byte, an overlong form and a broken start, each beside good text."""
    assert "a\ufffdb" == _all([b"a\x80b"])
    assert "a\ufffd\ufffdb" == _all([b"a\xc0\xafb"])
    assert "a\ufffdb" == _all([b"a\xe2\x82", b"b"])


def test_a_half_at_the_end_is_dropped() -> None:
    """It was never a character."""
    assert "a" == _all([b"a", b"\xf0\x9f"])
