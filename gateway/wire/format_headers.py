"""Request headers that belong to a format as its body does: an upstream that speaks the format gets them too."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from gateway.types import Operation
from gateway.wire.passages import UPLOADS

_ANTHROPIC = frozenset((b"anthropic-version", b"anthropic-beta"))
_BY_OPERATION: Mapping[Operation, frozenset[bytes]] = MappingProxyType(
    {
        Operation.MESSAGES: _ANTHROPIC,
        Operation.COUNT_TOKENS: _ANTHROPIC,
        **dict.fromkeys(UPLOADS, frozenset((b"content-type",))),
    }
)
_MOST_BYTES = 4096


def format_headers(operation: Operation, headers: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    """Those of ``headers`` that go on, their values joined where one comes several times.

    Of everything else that a client sends nothing reaches an upstream. What is too long, or no printable ASCII, does
    not either.
    """
    wanted = _BY_OPERATION.get(operation)
    if wanted is None:
        return ()
    found: dict[str, str] = {}
    for name, value in headers:
        if name in wanted and value.isascii():
            text = value.decode().strip()
            if text and text.isprintable():
                key = name.decode()
                found[key] = f"{found[key]},{text}" if key in found else text
    return tuple((name, value) for name, value in found.items() if len(value) <= _MOST_BYTES)
