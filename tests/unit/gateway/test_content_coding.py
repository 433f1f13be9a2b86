import gzip
import os
import tracemalloc
import zlib
from collections.abc import Callable, Iterable
from itertools import pairwise

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from gateway.content_coding import decoder
from gateway.errors import BodyTooLarge, InvalidRequest, UnsupportedMediaType

MiB = 1024 * 1024

ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "identity": bytes,
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.compress,
}
COMPRESSED = ["gzip", "deflate", "zstd"]


def _decoded(coding: str, pieces: Iterable[bytes], max_bytes: int = MiB) -> bytes:
    inflater = decoder(coding, max_bytes)
    for piece in pieces:
        inflater.feed(piece)
    return inflater.finish()


@pytest.mark.parametrize("coding", ENCODERS)
def test_what_was_encoded_comes_back(coding: str) -> None:
    """Every supported coding is undone, whatever the letters' case and the space around its name."""
    body = b'{"model": "m"}' * 100
    assert body == _decoded(f" {coding.upper()} ", [ENCODERS[coding](body)])


@pytest.mark.parametrize("coding", COMPRESSED)
@given(body=st.binary(max_size=2000), cuts=st.lists(st.integers(0, 2000)), repeats=st.integers(1, 200))
def test_where_the_network_cuts_does_not_matter(coding: str, body: bytes, cuts: list[int], repeats: int) -> None:
    """Any re-cut of an encoded body decodes to the same bytes."""
    body *= repeats
    encoded = ENCODERS[coding](body)
    ends = [0, *sorted(min(cut, len(encoded)) for cut in cuts), len(encoded)]
    pieces = [encoded[start:end] for start, end in pairwise(ends)]
    assert body == _decoded(coding, pieces)


@pytest.mark.parametrize("coding", COMPRESSED)
def test_every_single_byte_may_come_alone(coding: str) -> None:
    """A body that arrives byte by byte, with far more output than a step puts out, is whole."""
    body = b"x" * 300_000 + os.urandom(100)
    encoded = ENCODERS[coding](body)
    assert body == _decoded(coding, [encoded[at : at + 1] for at in range(len(encoded))])


@pytest.mark.parametrize("coding", COMPRESSED)
def test_a_server_may_say_the_end_with_an_empty_piece(coding: str) -> None:
    """An ASGI server may send the last message without bytes, after the coding's own end."""
    assert b"{}" == _decoded(coding, [ENCODERS[coding](b"{}"), b""])


@pytest.mark.parametrize("coding", COMPRESSED)
def test_a_body_that_is_cut_short_is_refused(coding: str) -> None:
    """Without the coding's own end the body is not whole."""
    encoded = ENCODERS[coding](os.urandom(1000))
    for end in (0, 1, len(encoded) // 2, len(encoded) - 1):
        with pytest.raises(InvalidRequest):
            _decoded(coding, [encoded[:end]])


@pytest.mark.parametrize("coding", COMPRESSED)
@pytest.mark.parametrize("apart", [True, False])
def test_bytes_after_the_end_are_refused(coding: str, apart: bool) -> None:
    """What follows the end, in the same piece or in the next, is no part of the body."""
    encoded = ENCODERS[coding](b"{}")
    for garbage in (b"\0", b"trailing", encoded):
        with pytest.raises(InvalidRequest):
            _decoded(coding, [encoded, garbage] if apart else [encoded + garbage])


@pytest.mark.parametrize("coding", COMPRESSED)
def test_what_is_not_of_the_coding_is_refused_without_quoting_it(coding: str) -> None:
    """Plain JSON under a coding's name is refused in words that hold none of it."""
    with pytest.raises(InvalidRequest) as caught:
        _decoded(coding, [b'{"secret": "marker"}'])
    assert "marker" not in str(caught.value)


@pytest.mark.parametrize("coding", ["br", "gzip, gzip", "gzip,deflate", "compress", "zstd, ", "*"])
def test_other_codings_and_nested_ones_are_refused_by_name_of_what_is_read(coding: str) -> None:
    """A coding that we do not read, or two on top of each other, is answered with those that we do."""
    with pytest.raises(UnsupportedMediaType, match="gzip, deflate, zstd"):
        decoder(coding, MiB)


@pytest.mark.parametrize("coding", ["", *COMPRESSED])
def test_the_limit_is_of_the_decoded_body_and_to_the_byte(coding: str) -> None:
    """A body of exactly the limit passes; a byte more does not."""
    assert 5000 == len(_decoded(coding, [ENCODERS[coding](b"x" * 5000)], max_bytes=5000))
    with pytest.raises(BodyTooLarge, match="5000 bytes"):
        _decoded(coding, [ENCODERS[coding](b"x" * 5001)], max_bytes=5000)


@pytest.mark.parametrize("coding", COMPRESSED)
def test_a_bomb_costs_the_limit_and_a_few_blocks(coding: str) -> None:
    """64 MB of zeros in a few KB are refused as soon as they pass the limit, not after they were built."""
    bomb = ENCODERS[coding](b"\0" * (64 * MiB))
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLarge):
            _decoded(coding, [bomb])
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 5 * MiB


def test_a_zstd_frame_that_wants_a_large_window_is_refused() -> None:
    """A frame may not make us set aside more than the 8 MB that RFC 9659 allows to senders."""
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    frame = compressor.compress(b"x") + compressor.flush()
    with pytest.raises(InvalidRequest):
        _decoded("zstd", [frame])


def test_a_zstd_frame_that_lies_about_its_size_allocates_nothing() -> None:
    """The size that a frame declares is not believed."""
    # Magic number, descriptor for 8 bytes of content size, a window of 1 KB, 2**62 bytes to come, an empty last block.
    magic = zstandard.compress(b"")[:4]
    lie = magic + bytes([0b1100_0000, 0]) + (1 << 62).to_bytes(8, "little") + bytes([1, 0, 0])
    assert 1 << 62 == zstandard.get_frame_parameters(lie).content_size
    tracemalloc.start()
    try:
        assert b"" == _decoded("zstd", [lie])
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < MiB
