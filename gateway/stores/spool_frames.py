"""How a spool's file is written: a head that names the columns, then a frame a request, each with its checksum.

A frame is whole or not there: what was cut off at the end of a file, by a full disk or a power cut, is passed over.
"""

import os
import re
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from gateway.stores.rows import ATTEMPT_COLUMNS, REQUEST_COLUMNS, Rows

_MAGIC = b"HRSPOOL1"
_FRAME = struct.Struct("<II")
_MOST_FRAME_BYTES = 64 * 1024 * 1024
_READ_BYTES = 64 * 1024
"""At a time: it lies in memory beside what is made of it."""
_COLUMN = re.compile(r"[a-z][a-z0-9_]{0,62}")


class Columns(Struct, frozen=True, kw_only=True):
    """What the values of a row are, in their order; a file of an older version has fewer of them."""

    requests: tuple[str, ...] = REQUEST_COLUMNS
    attempts: tuple[str, ...] = ATTEMPT_COLUMNS


class Spooled(Struct, frozen=True, gc=False):
    """A request's rows, and where in the file they end."""

    ends_at: int
    rows: Rows


class _Read(Struct, frozen=True, array_like=True):
    """``Rows`` as they come back: their values are what they are, text or bytes."""

    received_unix_s: float
    request: tuple[Any, ...]
    attempts: tuple[tuple[Any, ...], ...]
    facts: bytes | None
    chunks: tuple[tuple[bytes, ...], tuple[int, ...]]


_ENCODE = msgspec.msgpack.Encoder().encode
_READ = msgspec.msgpack.Decoder(_Read)
_COLUMNS = msgspec.msgpack.Decoder(Columns)


def frame(rows: Rows) -> bytes:
    """The rows of a request, framed."""
    return _framed(_ENCODE(rows))


def unframed(framed: bytes) -> Rows:
    """What ``frame`` was given."""
    return _rows(framed[_FRAME.size :])


def head() -> bytes:
    """What a file begins with."""
    return _MAGIC + _framed(_ENCODE(Columns()))


def read_head(descriptor: int) -> tuple[Columns, int]:
    """The columns, and where the first frame begins.

    Raises:
        ValueError: it is no spool, or its beginning is not there.
        OSError: it cannot be read.
    """
    if os.pread(descriptor, len(_MAGIC), 0) != _MAGIC:
        raise ValueError("it is no spool")
    payload, ends_at = next(_payloads(descriptor, len(_MAGIC)), (None, 0))
    if payload is None:
        raise ValueError("its head is damaged")
    columns = _COLUMNS.decode(payload)
    if not all(_COLUMN.fullmatch(name) for name in (*columns.requests, *columns.attempts)):
        raise ValueError("its head is damaged")
    return columns, ends_at


def read_frames(descriptor: int, at: int, most: int) -> list[Spooled]:
    """Up to ``most`` requests from the offset ``at`` on; fewer where there are no more, or what follows is damaged.

    Raises:
        OSError: it cannot be read.
        msgspec.DecodeError: a frame holds what is no request, though its checksum is right.
    """
    found: list[Spooled] = []
    for payload, ends_at in _payloads(descriptor, at):
        found.append(Spooled(ends_at, _rows(payload)))
        if len(found) == most:
            break
    return found


def _rows(payload: bytes) -> Rows:
    read = _READ.decode(payload)
    return Rows(read.received_unix_s, read.request, read.attempts, read.facts, read.chunks)


def _framed(payload: bytes) -> bytes:
    return _FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def _payloads(descriptor: int, at: int) -> Iterator[tuple[bytes, int]]:
    """Each whole frame's payload and the offset of its end."""
    buffer, begins, read = b"", at, 0
    while True:
        head = buffer[read : read + _FRAME.size]
        length, checksum = _FRAME.unpack(head) if len(head) == _FRAME.size else (0, 0)
        if length > _MOST_FRAME_BYTES:
            return
        ends = read + _FRAME.size + length
        if len(buffer) < ends or len(head) < _FRAME.size:
            buffer, begins, read = buffer[read:], begins + read, 0
            more = os.pread(descriptor, max(_READ_BYTES, length), begins + len(buffer))
            if not more:
                return
            buffer += more
            continue
        payload = buffer[read + _FRAME.size : ends]
        if zlib.crc32(payload) != checksum:
            return
        read = ends
        yield payload, begins + read
