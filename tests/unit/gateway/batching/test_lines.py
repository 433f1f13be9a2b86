from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.batching.lines import BatchLine, LineFault, LineSplitter, read_line

CHAT = "/v1/chat/completions"
GOOD = {"custom_id": "a", "method": "POST", "url": CHAT, "body": {"model": "m", "messages": []}}


def _split(content: bytes, cuts: list[int], most_bytes: int = 1000) -> list[tuple[int, bytes | None]]:
    splitter, found, start = LineSplitter(most_bytes), [], 0
    for end in [*sorted(cut % (len(content) + 1) for cut in cuts), len(content)]:
        found += splitter.feed(content[start:end])
        start = end
    return [*found, *splitter.end()]


@given(st.binary(max_size=200) | st.text("ab\r\n {}", max_size=60).map(str.encode), st.lists(st.integers(0, 300)))
def test_every_line_is_found_once_wherever_the_pieces_end(content: bytes, cuts: list[int]) -> None:
    """Numbered from one, without its end; those with blanks alone are none, and count."""
    text = content.removeprefix(b"\xef\xbb\xbf")
    expected = [(n, one) for n, one in enumerate(text.split(b"\n"), start=1) if one and not one.isspace()]
    assert expected == _split(content, cuts)


@given(st.lists(st.integers(1, 40), max_size=8), st.lists(st.integers(0, 300)))
def test_of_a_line_that_is_too_long_nothing_is_kept(lengths: list[int], cuts: list[int]) -> None:
    """It has its number all the same, and those after it are read."""
    content = b"\n".join(b"x" * length for length in lengths)
    expected = [(n, b"x" * one if one <= 20 else None) for n, one in enumerate(lengths, start=1)]
    assert expected == _split(content, cuts, most_bytes=20)


@given(st.binary(max_size=300))
def test_whatever_a_line_is_it_is_a_request_or_a_fault_of_that_line(line: bytes) -> None:
    """Nothing is raised."""
    found = read_line(7, line, CHAT)
    assert isinstance(found, LineFault)
    assert 7 == found.line


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*GOOD, "more"]), JSON | st.sampled_from([*GOOD.values()]), max_size=5))
def test_a_line_with_anything_in_its_fields_is_one_or_the_other(fields: dict[str, Any]) -> None:
    """A request has a name and a model."""
    found = read_line(1, msgspec.json.encode(fields), CHAT)
    if isinstance(found, BatchLine):
        assert (found.custom_id, found.model) == (fields["custom_id"], fields["body"]["model"])
        assert fields["body"] == msgspec.json.decode(found.body)
    else:
        assert 1 == found.line


@pytest.mark.parametrize(
    ("line", "code", "param"),
    [
        (b"{", "invalid_json_line", None),
        (b"not json", "invalid_json_line", None),
        (b'{"a":' * 100_000, "invalid_json_line", None),
        (b'{"custom_id": "\xff"}', "invalid_json_line", None),
        (b"[]", "invalid_request", None),
        (None, "line_too_large", None),
        ({**GOOD, "custom_id": 7}, "invalid_request", "custom_id"),
        ({**GOOD, "custom_id": ""}, "invalid_request", "custom_id"),
        ({**GOOD, "custom_id": "x" * 513}, "invalid_request", "custom_id"),
        ({"method": "POST"}, "missing_required_parameter", "custom_id"),
        ({"custom_id": "a"}, "missing_required_parameter", "method"),
        ({"custom_id": "a", "method": "POST"}, "missing_required_parameter", "url"),
        ({"custom_id": "a", "method": "POST", "url": CHAT}, "missing_required_parameter", "body"),
        ({**GOOD, "method": "GET"}, "invalid_method", "method"),
        ({**GOOD, "url": "/v1/embeddings"}, "url_mismatch", "url"),
        ({**GOOD, "body": []}, "invalid_request", "body"),
        ({**GOOD, "body": {}}, "model_not_found", "body.model"),
        ({**GOOD, "body": {"model": 3}}, "model_not_found", "body.model"),
        ({**GOOD, "body": {"model": "m", "stream": True}}, "invalid_request", "body.stream"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_wrong_with_a_line_is_said_by_its_code(line: Any, code: str, param: str | None) -> None:
    """And by the field at fault."""
    written = line if line is None or isinstance(line, bytes) else msgspec.json.encode(line)
    found = read_line(3, written, CHAT)
    assert isinstance(found, LineFault)
    assert (code, param, 3) == (found.code, found.param, found.line)


def test_a_body_goes_on_as_the_client_wrote_it() -> None:
    """Byte for byte, with fields that nobody here knows."""
    body = b'{"model": "m",  "stream":false, "odd": [1, {"x": 1e2}]}'
    line = b'{"body": %b, "url": "/v1/chat/completions", "custom_id": "\\u00e9", "method": "POST"}' % body
    expected = BatchLine(number=1, custom_id="é", model="m", body=body)
    assert expected == read_line(1, line, CHAT)


def test_blank_lines_keep_their_count_however_many_there_are() -> None:
    """A line between millions of them has its number, and so has one that they are the end of."""
    content = b"\n" * 3_000_000 + b" \t\r\n{}\n\n" + b"\r\n" * 1_000_000 + b"  {}"
    assert [(3_000_002, b"{}"), (4_000_004, b"  {}")] == _split(content, [1, 2_999_999, 3_000_001, 3_000_003])
