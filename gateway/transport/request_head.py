"""The head of a request, most of it written once per upstream; nothing gets in that could end a line."""

import re
from collections.abc import Mapping

from gateway.errors import ConfigurationError
from gateway.transport.address import Address

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?")
_PATH = re.compile(r"/[\x21-\x22\x24-\x7e]*")
_FRAMING = frozenset(
    {"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""How long the body is and how long the connection lives is ours to say, and where it goes."""
_MOST_WRITTEN = 16
"""Heads that are kept for the next request: one for each path and kind of answer. Those with a trace in them differ,
and so do those of forms, each of which has a boundary of its own: they would leave no place for the others."""


class RequestHead:
    """Writes heads of POST requests to one upstream. No content coding is asked for: bytes go on as they came.

    Args:
        address: the upstream.
        headers: go with every request.

    Raises:
        ConfigurationError: a header that is none, or that is ours to write. Its value is not told.
    """

    def __init__(self, address: Address, headers: Mapping[str, str]) -> None:
        given = {name.lower(): value for name, value in headers.items()}
        try:
            _check(given)
        except ValueError as error:
            raise ConfigurationError(str(error), where="headers") from error
        self._fixed = {
            "host": address.authority,
            "user-agent": "headrace",
            "accept-encoding": "identity",
            "content-type": "application/json",
            **given,
        }
        self._start = f"POST {address.path}"
        self._fixed_lines = _lines(self._fixed)
        self._written: dict[tuple[object, ...], bytes] = {}

    def post(self, path: str, body_bytes: int, headers: Mapping[str, str]) -> bytes:
        """The head of a request with a body of ``body_bytes`` bytes.

        Raises:
            ValueError: ``path`` is no path, or one of ``headers`` is none or ours to write.
        """
        asked = (path, *headers.items())
        lines = self._written.get(asked)
        if lines is None:
            lines = self._write(path, headers)
            if len(self._written) < _MOST_WRITTEN and "content-type" not in headers:
                self._written[asked] = lines
        return b"%bcontent-length: %d\r\n\r\n" % (lines, body_bytes)

    def _write(self, path: str, headers: Mapping[str, str]) -> bytes:
        if not _PATH.fullmatch(path):
            raise ValueError("the path of a request must begin with / and be visible ASCII")
        _check(headers)
        fixed_lines = self._fixed_lines
        replaced = self._fixed.keys() & map(str.lower, headers)
        if replaced:
            fixed_lines = _lines({name: value for name, value in self._fixed.items() if name not in replaced})
        return f"{self._start}{path} HTTP/1.1\r\n{fixed_lines}{_lines(headers)}".encode("ascii")


def _lines(headers: Mapping[str, str]) -> str:
    return "".join([f"{name}: {value}\r\n" for name, value in headers.items()])


def _check(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no header name")
        if name.lower() in _FRAMING:
            raise ValueError(f"`{name}` is written by the connection itself")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"the value of `{name}` holds characters that no header may have")
