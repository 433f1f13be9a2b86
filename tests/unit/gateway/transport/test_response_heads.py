from typing import Any

import pytest

from gateway.exchange import HeaderLines, RawHeaders, laid
from gateway.transport.response_heads import ResponseHeads

FIELDS = [(b"content-type", b"application/json"), (b"x-request-id", b"req-1"), (b"x-time", b"12: 30")]
LINES = HeaderLines(laid(FIELDS[:1]), laid(FIELDS[1:]), 2)


@pytest.mark.parametrize("headers", [FIELDS, LINES])
def test_a_head_is_the_same_whether_its_fields_or_their_lines_are_given(headers: RawHeaders) -> None:
    """The status line, what the server adds, the fields, how the body is framed, and an empty line."""
    head = ResponseHeads().head(200, headers, b"content-length: 0\r\n", [(b"date", b"now")])
    assert (
        b"HTTP/1.1 200 OK\r\ndate: now\r\ncontent-type: application/json\r\nx-request-id: req-1\r\nx-time: 12: 30\r\n"
        b"content-length: 0\r\n\r\n"
    ) == head


def test_lines_of_a_head_are_read_as_its_fields() -> None:
    """By whoever watches the answer, or sends it another way."""
    assert (FIELDS, 3, FIELDS[1], FIELDS[1:]) == (list(LINES), len(LINES), LINES[1], LINES[1:])


@pytest.mark.parametrize("evil", [b"a\r\nx-evil: 1", b"a\nx-evil: 1", b"a\rb", b"a\r\n\r\nHTTP/1.1 200 OK"])
@pytest.mark.parametrize("lines", [True, False])
def test_a_line_break_in_a_value_goes_to_nobody(evil: bytes, lines: Any) -> None:
    """It would be a header, or a whole answer, of somebody else's."""
    headers = HeaderLines(b"", b"x-a: %b\r\n" % evil, 1) if lines else [(b"x-a", evil)]
    with pytest.raises(RuntimeError, match="line break"):
        ResponseHeads().head(200, headers, b"", ())
