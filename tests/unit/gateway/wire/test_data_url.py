import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.data_url import Inline, inline


@pytest.mark.parametrize(
    ("url", "held"),
    [
        ("data:image/png;base64,AAAA", Inline("image/png", "AAAA")),
        ("data:;base64,AAAA", Inline("application/octet-stream", "AAAA")),
        ("data:text/plain;charset=utf-8;base64,AAAA", Inline("text/plain", "AAAA")),
        ("data:text/plain,AAAA", None),
        ("https://example.org/data:image/png;base64,AAAA", None),
    ],
)
def test_what_an_address_holds_itself_is_told_with_its_kind(url: str, held: Inline | None) -> None:
    """Parameters of the kind are left out; what is not in base64 counts as held elsewhere."""
    assert held == inline(url)


@given(st.text())
def test_no_text_breaks_it(url: str) -> None:
    """Clients choose it."""
    held = inline(url)
    assert held is None or url.endswith(held.base64)
