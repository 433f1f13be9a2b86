import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends._faults import Fault
from backends._made_up import Cutter, spoiled, words_of

PIECES = (b"one", b"two", b"three")


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (None, list(PIECES)),
        (Fault(kind="empty"), []),
        (Fault(kind="garbage"), [b"<html>\n\ndata: {\n\n"]),
        (Fault(kind="cut", after_chunks=2), [b"one", b"two"]),
        (Fault(kind="stall", after_chunks=0), []),
        (Fault(kind="reset", after_chunks=2), [b"one", b"two", b"th"]),
        (Fault(kind="reset", after_chunks=9), list(PIECES)),
    ],
)
def test_how_a_fault_spoils_an_answer(fault: Fault | None, expected: list[bytes]) -> None:
    """The pieces come as they should up to the fault, and then as the fault says."""
    assert expected == list(spoiled(iter(PIECES), fault, streamed=True))


@pytest.mark.parametrize(("streamed", "start"), [(True, b'data: {"error"'), (False, b'{"error"')])
def test_an_error_has_the_form_of_the_answer(streamed: bool, start: bytes) -> None:
    """An error in a stream is an event, an error in a whole answer a body."""
    *before, error = spoiled(iter(PIECES), Fault(kind="error", after_chunks=1), streamed=streamed)
    assert ([b"one"], start) == (before, error[: len(start)])


def test_words_begin_anew() -> None:
    """An answer longer than its text says it again, with spaces between."""
    assert ("a", " b", " a") == words_of("a b", 3)


@given(st.lists(st.binary(max_size=20), max_size=10), st.integers(0, 7))
def test_cutting_changes_no_byte(pieces: list[bytes], size: int) -> None:
    """The cutter changes where pieces end, and nothing else; all but the last are of the size asked for."""
    cutter = Cutter(size)
    cut = [part for piece in pieces for part in cutter.feed(piece)] + list(cutter.rest())
    assert b"".join(pieces) == b"".join(cut)
    assert not size or all(len(part) == size for part in cut[:-1])
