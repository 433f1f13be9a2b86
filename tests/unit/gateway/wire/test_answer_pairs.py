"""From every provider's format to every client's: nothing that a model said is lost, and every client can read it."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.errors import UpstreamError
from gateway.price import Usage
from gateway.types import Operation
from gateway.wire.writers import WRITERS
from tests.unit.gateway.wire.answer_pairs import CLIENTS, PROVIDERS, Said, plain, request_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.sampled_from(["look", "rest", "find_it"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | TEXTS,
    lambda it: st.lists(it, max_size=2) | st.dictionaries(TEXTS, it, max_size=2),
    max_leaves=4,
)
pairs = pytest.mark.parametrize("client", CLIENTS, ids=str)
providers = pytest.mark.parametrize("provider", PROVIDERS)
modes = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])


@st.composite
def answers(draw: st.DrawFn) -> Said:
    """What a model may say, and what it may have taken."""
    calls = tuple(
        (draw(NAMES), draw(st.dictionaries(TEXTS, VALUES, max_size=3))) for _ in range(draw(st.integers(0, 3)))
    )
    prompt_tokens, output_tokens = draw(st.integers(1, 10**6)), draw(st.integers(1, 10**6))
    return Said(
        thoughts=draw(TEXTS),
        text=draw(TEXTS),
        calls=calls,
        reason="tool_calls" if calls else draw(st.sampled_from(["stop", "length"])),
        usage=Usage(
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            cached_tokens=draw(st.integers(0, prompt_tokens - 1)),
            reasoning_tokens=draw(st.integers(0, output_tokens - 1)),
        ),
        pieces=draw(st.integers(1, 5)),
    )


def translated(said: Said, provider: str, client: Operation, *, streamed: bool, cut: int = 0) -> bytes:
    """The client's bytes, of the provider's, which the network has cut every so many."""
    reader_of, write = PROVIDERS[provider]
    body, reader = write(said, streamed), reader_of(streamed)
    writer = WRITERS[client](request_of(client), streamed)
    step = cut or len(body)
    out = b"".join(writer.write(reader.feed(body[at : at + step])) for at in range(0, len(body), step))
    return out + writer.write(reader.end())


@modes
@providers
@pairs
@settings(max_examples=10, derandomize=True, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(said=answers(), cut=st.integers(1, 64))
def test_nothing_that_was_said_is_lost(client: Operation, provider: str, streamed: bool, said: Said, cut: int) -> None:
    """Thoughts, text, calls, the reason of the end and the counts are what they were, however the bytes came."""
    assert plain(said) == CLIENTS[client](translated(said, provider, client, streamed=streamed, cut=cut), streamed)


@modes
@providers
@pairs
def test_an_answer_that_was_filtered_is_never_a_normal_end(client: Operation, provider: str, streamed: bool) -> None:
    """Whatever words a format has for it."""
    said = Said(text="well", reason="content_filter", usage=Usage(prompt_tokens=1, output_tokens=1))
    if provider == "ollama":  # which has no word for it: what it writes then is its own end
        return
    read = CLIENTS[client](translated(said, provider, client, streamed=streamed), streamed)
    assert "content_filter" == read.reason
    assert replace(plain(said), reason="") == replace(read, reason="")


@modes
@providers
@pairs
@settings(max_examples=10, derandomize=True, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    said=answers(),
    harm=st.sampled_from(["cut", "lost", "flipped", "doubled"]),
    at=st.integers(0, 2**20),
    bit=st.integers(0, 7),
)
def test_a_broken_answer_is_an_error_and_no_crash(
    client: Operation, provider: str, streamed: bool, said: Said, harm: str, at: int, bit: int
) -> None:
    """Bytes that were lost, doubled or flipped on the way are read or refused in words; nothing else is raised."""
    reader_of, write = PROVIDERS[provider]
    reader, writer = reader_of(streamed), WRITERS[client](request_of(client), streamed)
    try:
        out = writer.write(reader.feed(_harmed(write(said, streamed), harm, at, bit)))
        out += b"" if reader.error is not None else writer.write(reader.end())
    except UpstreamError as refused:
        out = refused.message.encode()
    assert out or reader.error is not None or streamed


def _harmed(body: bytes, harm: str, at: int, bit: int) -> bytes:
    at %= len(body)
    match harm:
        case "cut":
            return body[:at]
        case "lost":
            return body[:at] + body[at + 3 :]
        case "flipped":
            return body[:at] + bytes([body[at] ^ 1 << bit]) + body[at + 1 :]
    return body[: at + 20] + body[at:]
