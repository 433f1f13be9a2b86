"""Messages as bytes: MessagePack behind a four-byte big-endian length. One Unix socket carries both directions."""

import struct
from collections.abc import Iterator

from msgspec import DecodeError, Struct, field
from msgspec.msgpack import Decoder, Encoder

from embedded_engine.messages import FromEngine, ToEngine

__all__ = [
    "MAX_FRAME_BYTES",
    "FrameReader",
    "FrameTooLarge",
    "NotEncodable",
    "ProtocolError",
    "decode_from_engine",
    "decode_to_engine",
    "frame",
]

MAX_FRAME_BYTES = 16 * 1024 * 1024

_LENGTH = struct.Struct(">I")


class ProtocolError(Exception):
    """What was sent, or should be, is no frame of this protocol."""


class FrameTooLarge(ProtocolError):
    """It has more than `MAX_FRAME_BYTES`."""


class NotEncodable(ProtocolError):
    """It has a value that MessagePack cannot hold."""


_encoder = Encoder()
_to_engine = Decoder(ToEngine)
_from_engine: Decoder[FromEngine] = Decoder(FromEngine)


def frame(message: ToEngine | FromEngine) -> bytes:
    """One message as it goes over the socket.

    Raises:
        FrameTooLarge: Packed, it is larger than `MAX_FRAME_BYTES`.
        NotEncodable: A text in it has lone surrogates, or an integer more than 64 bits.
    """
    try:
        body = _encoder.encode(message)
    except UnicodeEncodeError as error:
        raise NotEncodable(f"a text that is not Unicode cannot be sent: {error.reason}") from error
    except OverflowError as error:
        raise NotEncodable("an integer of more than 64 bits cannot be sent") from error
    if len(body) > MAX_FRAME_BYTES:
        raise FrameTooLarge(f"a message of {len(body)} bytes is over the limit of {MAX_FRAME_BYTES}")
    return _LENGTH.pack(len(body)) + body


def decode_to_engine(body: bytes) -> ToEngine:
    """The message in one frame's body, on the engine's side."""
    try:
        return _to_engine.decode(body)
    except DecodeError as error:
        raise ProtocolError(f"not a message to the engine: {error}") from error


def decode_from_engine(body: bytes) -> FromEngine:
    """The message in one frame's body, on the caller's side."""
    try:
        return _from_engine.decode(body)
    except DecodeError as error:
        raise ProtocolError(f"not a message from the engine: {error}") from error


class FrameReader(Struct):
    """Cuts a byte stream into frames, wherever the chunks were cut; holds at most one unfinished frame."""

    _buffer: bytearray = field(default_factory=bytearray)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Add bytes; yield the body of every frame that is now complete.

        Raises:
            FrameTooLarge: A frame announces more than `MAX_FRAME_BYTES`.
        """
        self._buffer += chunk
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            if length > MAX_FRAME_BYTES:
                raise FrameTooLarge(f"a frame announces {length} bytes, over the limit of {MAX_FRAME_BYTES}")
            end = start + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            yield bytes(self._buffer[start + _LENGTH.size : end])
            start = end
        del self._buffer[:start]
