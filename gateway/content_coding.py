"""Undoes a request body's content coding piece by piece, and stops as soon as it grows over the limit."""

import zlib
from typing import Protocol

import zstandard

from gateway.errors import BodyTooLarge, InvalidRequest, UnsupportedMediaType

SUPPORTED = "gzip, deflate, zstd"

_PIECE_BYTES = 64 * 1024
_ZSTD_STEP_BYTES = 64
_ZSTD_WINDOW_BYTES = 8 * 1024 * 1024  # what RFC 9659 lets a sender use, and all that a decoder has to hold
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class Decoder(Protocol):
    """Takes pieces of a body as they come, keeps what they decode to, and holds it against the limit."""

    def feed(self, data: bytes) -> None:
        """Takes a piece.

        Raises:
            BodyTooLarge: the decoded body is over the limit; at most a block more than that is ever held.
            InvalidRequest: the piece is not of the coding.
        """
        ...

    def finish(self) -> bytes:
        """The decoded body.

        Raises:
            InvalidRequest: the coding's own end is missing.
        """
        ...


def decoder(coding: str, max_bytes: int) -> Decoder:
    """The decoder for a ``Content-Encoding`` value.

    Raises:
        UnsupportedMediaType: a coding that we do not read, or several on top of each other.
    """
    name = coding.strip().lower()
    if name in {"", "identity"}:
        return _Identity(max_bytes)
    if name in {"gzip", "x-gzip"}:
        return _Zlib(max_bytes, _GZIP_WINDOW)
    if name == "deflate":
        return _Zlib(max_bytes, zlib.MAX_WBITS)
    if name == "zstd":
        return _Zstd(max_bytes)
    raise UnsupportedMediaType(f"this content coding is not read here; {SUPPORTED} are, one at a time")


class _Identity:
    """No coding at all: the pieces, counted."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []
        self._bytes = 0

    def feed(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._bytes > self._max_bytes:
            raise BodyTooLarge(f"the body is longer than {self._max_bytes} bytes")
        self._pieces.append(data)

    def finish(self) -> bytes:
        return b"".join(self._pieces)


class _Zlib(_Identity):
    """Gzip and deflate: one member, in steps of a bounded size."""

    def __init__(self, max_bytes: int, window: int) -> None:
        super().__init__(max_bytes)
        self._inflater = zlib.decompressobj(window)

    def feed(self, data: bytes) -> None:
        if data and self._inflater.eof:
            raise _broken()
        try:
            while data:
                super().feed(self._inflater.decompress(data, _PIECE_BYTES))
                data = self._inflater.unconsumed_tail
        except zlib.error:
            raise _broken() from None
        if self._inflater.unused_data:
            raise _broken()

    def finish(self) -> bytes:
        if not self._inflater.eof:
            raise _broken()
        return super().finish()


class _Zstd(_Identity):
    """Zstandard, as a stream: the size that a frame declares is never allocated."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self._ended = False
        self._inflater = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES).decompressobj()

    def feed(self, data: bytes) -> None:
        if data and self._ended:
            raise _broken()
        # A block of 4 bytes can stand for 128 KB, so only small steps of input bound what a step puts out.
        for start in range(0, len(data), _ZSTD_STEP_BYTES):
            try:
                piece = self._inflater.decompress(data[start : start + _ZSTD_STEP_BYTES])
            except zstandard.ZstdError:
                raise _broken() from None
            super().feed(piece)
            if self._inflater.eof:
                self._ended = True
                if self._inflater.unused_data or start + _ZSTD_STEP_BYTES < len(data):
                    raise _broken()
                return

    def finish(self) -> bytes:
        if not self._ended:
            raise _broken()
        return super().finish()


def _broken() -> InvalidRequest:
    return InvalidRequest("the body is not what its content coding says")
