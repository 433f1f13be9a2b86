"""AWS's event streams, written by hand after its specification: lengths, a checksum, headers, payload, a checksum."""

import json
import struct
from typing import Any
from zlib import crc32

TEXT = 7
"""The type of a header that is a text."""


def frame(payload: bytes, **headers: str) -> bytes:
    """A frame; of its headers' names, the colon is added."""
    block = b"".join(
        struct.pack("!B", len(name) + 1)
        + f":{name.replace('_', '-')}".encode()
        + struct.pack("!BH", TEXT, len(value))
        + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack("!II", len(block) + len(payload) + 16, len(block))
    checked = prelude + struct.pack("!I", crc32(prelude)) + block + payload
    return checked + struct.pack("!I", crc32(checked))


def event(name: str, fields: Any) -> bytes:
    """An event of ConverseStream."""
    return frame(json.dumps(fields).encode(), event_type=name, content_type="application/json", message_type="event")


def exception(name: str, message: str) -> bytes:
    """An exception inside a stream."""
    payload = json.dumps({"message": message}).encode()
    return frame(payload, exception_type=name, content_type="application/json", message_type="exception")
