"""Lines of JSON, cut anywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import UpstreamInvalid
from gateway.wire.ndjson import LineParser


@given(st.lists(st.binary(max_size=8).map(lambda it: it.replace(b"\n", b"").strip()), max_size=5), st.data())
def test_lines_do_not_depend_on_how_they_were_cut(lines: list[bytes], data: st.DataObject) -> None:
    """Ends are LF or CRLF, and empty lines are none."""
    sent = b"".join(line + data.draw(st.sampled_from([b"\n", b"\r\n"])) for line in lines) + b"rest"
    at = data.draw(st.integers(0, len(sent)))
    parser = LineParser(100)
    assert [line for line in lines if line] == parser.feed(sent[:at]) + parser.feed(sent[at:])
    assert parser.partial
    assert b"rest" == parser.rest()
    assert (False, b"") == (parser.partial, parser.rest())


@pytest.mark.parametrize("sent", [b"123456\n", b"123456", b"1\n123456"])
def test_a_line_has_a_bound(sent: bytes) -> None:
    """Ended or not."""
    with pytest.raises(UpstreamInvalid):
        LineParser(5).feed(sent)
