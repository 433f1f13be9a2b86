"""The parameters that all backends over HTTP have: checked, and as their connections want them."""

import re
from collections.abc import Mapping
from typing import Literal, Protocol
from urllib.parse import urlsplit

from backends._headers import HeaderValue
from gateway.facts import Concurrency
from gateway.ports import Origin
from gateway.types import Operation

_PATH = re.compile(r"/[!-~]*")

_MORE_THAN_ZERO = ("connect_timeout_s", "keep_alive_s", "max_connections", "max_answer_bytes", "max_retry_after_s")


Transport = Literal["auto", "own", "httpx", "http2"]


class HttpFields(Protocol):
    """A backend over HTTP, as far as its policy file says how to reach it; its docstring has the whole of it."""

    @property
    def concurrency(self) -> Concurrency:
        """How many requests it serves at once."""
        ...

    @property
    def connect_timeout_s(self) -> float:
        """For a connection, and for one of ours to be free."""
        ...

    @property
    def keep_alive_s(self) -> float:
        """How long an idle connection is used again."""
        ...

    @property
    def max_connections(self) -> int:
        """At most so many at once."""
        ...

    @property
    def headers(self) -> Mapping[str, HeaderValue]:
        """Further request headers."""
        ...

    @property
    def transport(self) -> Transport:
        """Over whose connections."""
        ...

    @property
    def max_answer_bytes(self) -> int:
        """Of an answer that is not streamed."""
        ...

    @property
    def max_retry_after_s(self) -> float:
        """The longest wait that is believed."""
        ...

    @property
    def verify(self) -> bool | str:
        """Which certificates are trusted."""
        ...


def check_fields(fields: HttpFields, *more_than_zero: str) -> None:
    """Refuses bounds of nothing, also those of the backend's own that are named.

    Raises:
        ValueError: with the parameter's name.
    """
    for name in (*_MORE_THAN_ZERO, *more_than_zero):
        if getattr(fields, name) <= 0:
            raise ValueError(f"`{name}` must be more than zero")
    if isinstance(fields.concurrency, int) and fields.concurrency < 1:
        raise ValueError("`concurrency` must be at least 1")


def origin_of(
    fields: HttpFields,
    *,
    base_url: str,
    headers: Mapping[str, str],
    client_certificate: str = "",
    client_key: str = "",
) -> Origin:
    """The upstream at ``base_url``, to which ``headers`` always go; see ``Origin`` for the rest."""
    return Origin(
        base_url=base_url,
        headers=headers,
        connect_timeout_s=fields.connect_timeout_s,
        keep_alive_s=fields.keep_alive_s,
        max_connections=fields.max_connections,
        verify=fields.verify,
        client_certificate=client_certificate,
        client_key=client_key,
    )


def check_paths(paths: Mapping[Operation, str]) -> None:
    """Refuses what is no path from the root of a host.

    Raises:
        ValueError: with the operation.
    """
    for operation, path in paths.items():
        if not _PATH.fullmatch(path) or "?" in path or "#" in path:
            raise ValueError(f"`paths`: that of `{operation}` must begin with / and have no query or fragment")


def root_of(base_url: str) -> str:
    """The address without its path."""
    parts = urlsplit(base_url)
    return f"{parts.scheme}://{parts.netloc}"
