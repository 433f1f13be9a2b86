"""Where spans go: what the standard ``OTEL_EXPORTER_OTLP_*`` variables say, those for traces before those for all."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

from opentelemetry.util.re import parse_env_headers

from gateway.errors import ConfigurationError

Compression = Literal["none", "gzip", "deflate"]

_PREFIX = "OTEL_EXPORTER_OTLP_"
_HOME = "http://localhost:4318"
_PATH = "v1/traces"
_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A collector: its address, and how it is spoken to.

    ``certificate`` is the file of the authorities that its own is checked against, ``client_certificate`` and
    ``client_key`` those that are shown to it; empty where none was named. ``behind_proxy`` tells whether a proxy
    stands in between.
    """

    url: str
    headers: Mapping[str, str]
    timeout_s: float
    compression: Compression
    certificate: str
    client_certificate: str
    client_key: str
    behind_proxy: bool


def read_destination(environment: Mapping[str, str], *, behind_proxy: Callable[[str], bool]) -> Destination:
    """What ``environment`` asks for; ``behind_proxy`` tells of an address whether a proxy stands before it.

    Raises:
        ConfigurationError: naming a variable that cannot be meant.
    """
    given = _Given(environment)
    name, base = given.named("ENDPOINT")
    is_whole = name.endswith("_TRACES_ENDPOINT")  # the other is what paths of all signals are added to
    url = base if is_whole else f"{(base or _HOME).removesuffix('/')}/{_PATH}"
    return Destination(
        url=url,
        headers=parse_env_headers(given.named("HEADERS")[1], liberal=True),
        timeout_s=given.timeout_s(),
        compression=given.compression(),
        certificate=given.named("CERTIFICATE")[1],
        client_certificate=given.named("CLIENT_CERTIFICATE")[1],
        client_key=given.named("CLIENT_KEY")[1],
        behind_proxy=behind_proxy(url),
    )


class _Given:
    """The variables by the last part of their name."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def named(self, last: str) -> tuple[str, str]:
        """The name that counts, and its value: empty where neither is set."""
        for name in (f"{_PREFIX}TRACES_{last}", f"{_PREFIX}{last}"):
            if value := self._environment.get(name, "").strip():
                return name, value
        return f"{_PREFIX}{last}", ""

    def timeout_s(self) -> float:
        name, text = self.named("TIMEOUT")
        try:
            timeout_s = float(text or _TIMEOUT_S)
        except ValueError:
            timeout_s = math.nan
        if not 0 < timeout_s < math.inf:
            raise ConfigurationError(f"{text!r} is no number of seconds", where=name)
        return timeout_s

    def compression(self) -> Compression:
        name, text = self.named("COMPRESSION")
        known = get_args(Compression)
        wish = text.lower() or "none"
        if wish not in known:
            raise ConfigurationError(f"unknown compression {text!r}", where=name, hint=f"use {', '.join(known)}")
        return cast("Compression", wish)
