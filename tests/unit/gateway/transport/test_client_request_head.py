"""No header and no path can end a line of a request's head, and the framing is ours."""

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ConfigurationError
from gateway.transport.address import Address
from gateway.transport.request_head import RequestHead

ADDRESS = Address.of("http://upstream.example:8000/v1")
TEXT = st.one_of(st.text(max_size=12), st.text(st.characters(max_codepoint=0x7F), max_size=12))


class Reading:
    """A request as a server's parser understands it."""

    def __init__(self, data: bytes) -> None:
        self.url = b""
        self.headers: list[tuple[str, str]] = []
        self.messages = 0
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        """A piece of the URL."""
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field."""
        self.headers.append((name.decode(), value.decode()))

    def on_message_complete(self) -> None:
        """The end of a request."""
        self.messages += 1


@given(
    TEXT.map(lambda text: f"/{text}") | TEXT,
    st.dictionaries(TEXT, TEXT, max_size=3),
    st.dictionaries(TEXT, TEXT, max_size=2),
)
def test_a_head_says_what_was_given_or_is_refused(
    path: str, headers: dict[str, str], of_origin: dict[str, str]
) -> None:
    """Whatever the texts, a server reads exactly one request, with these fields and no others, or nothing is sent."""
    try:
        head = RequestHead(ADDRESS, of_origin).post(path, 0, headers)
    except (ValueError, ConfigurationError):
        return
    reading = Reading(head)
    replaced = {name.lower() for name in (*of_origin, *headers)}
    usual = {"user-agent": "headrace", "accept-encoding": "identity", "content-type": "application/json"}
    expected = {("host", "upstream.example:8000"), ("content-length", "0")}
    expected |= {(name, value) for name, value in usual.items() if name not in replaced}
    expected |= {(name.lower(), value) for name, value in headers.items()}
    taken = {name.lower() for name in headers}
    expected |= {(name, value) for name, value in _last(of_origin).items() if name not in taken}
    assert (f"/v1{path}".encode(), 1) == (reading.url, reading.messages)
    assert expected == {(name.lower(), value) for name, value in reading.headers}


def _last(headers: dict[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def test_what_a_request_names_goes_instead_of_the_origins() -> None:
    """A field is sent once, whatever the case of its name."""
    head = RequestHead(ADDRESS, {"X-Team": "a", "user-agent": "mine"})
    assert (
        b"POST /v1/x HTTP/1.1\r\nhost: upstream.example:8000\r\nuser-agent: mine\r\naccept-encoding: identity\r\n"
        b"x-team: a\r\nContent-Type: text/plain\r\ncontent-length: 3\r\n\r\n"
    ) == head.post("/x", 3, {"Content-Type": "text/plain"})
    assert head.post("/x", 3, {}).count(b"content-type: application/json\r\n") == 1


@pytest.mark.parametrize(
    "headers", [{"a b": "c"}, {"a": "b\r\nc: d"}, {"a": "ü"}, {"Host": "elsewhere.example"}, {"connection": "close"}]
)
def test_headers_of_the_origin_are_checked_at_once(headers: dict[str, str]) -> None:
    """A wrong one is told when the connections are made, without its value."""
    with pytest.raises(ConfigurationError) as caught:
        RequestHead(ADDRESS, headers)
    assert "d" not in str(caught.value).partition("value of")[2].partition("holds")[0]
