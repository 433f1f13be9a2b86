from hypothesis import example, given
from hypothesis import strategies as st

from embedded_engine.stops import StopStrings

_TEXTS = st.text("abc", max_size=24)
_STOPS = st.lists(st.text("abc", min_size=1, max_size=4), max_size=4)


def _reference(text: str, stops: list[str]) -> str:
    """Read character by character; the first stop string that is complete ends the text before its beginning."""
    for end in range(1, len(text) + 1):
        matched = [stop for stop in stops if text[:end].endswith(stop)]
        if matched:
            return text[: end - max(map(len, matched))]
    return text


def _shown(pieces: list[str], stops: list[str]) -> list[str]:
    filtered = StopStrings(stops)
    return [*map(filtered.feed, pieces), filtered.flush()]


@given(_TEXTS, _STOPS, st.data())
@example("abc", ["abc", "b"], None)
def test_the_text_ends_before_the_first_complete_stop_string_wherever_it_is_cut(
    text: str, stops: list[str], data: st.DataObject | None
) -> None:
    """Streamed text equals whole text, and equals reading character by character."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6))) if data else [1, 2]
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert _reference(text, stops) == "".join(_shown(pieces, stops))


@given(_TEXTS, _STOPS)
def test_nothing_is_held_back_longer_than_needed(text: str, stops: list[str]) -> None:
    """What is held always begins a stop string."""
    filtered = StopStrings(stops)
    shown = ""
    for index, character in enumerate(text):
        shown += filtered.feed(character)
        held = text[len(shown) : index + 1]
        if filtered.matched is None and held:
            assert any(stop.startswith(held) for stop in stops)


def test_a_stop_string_over_many_pieces_never_shows_its_first_half() -> None:
    """Seven pieces make up the stop string; nothing of it is shown."""
    assert ["so", "", "", "", "", "", "", "", ""] == _shown(["so", "\n", "U", "s", "e", "r", ":", " x"], ["\nUser:"])


def test_an_unmatched_half_is_released_at_the_end() -> None:
    """Text that only looked like a stop string is the client's."""
    assert ["Hello", "", " Us"] == _shown(["Hello", " Us"], [" User"])
