"""Where spans go: what the standard ``OTEL_EXPORTER_OTLP_*`` variables say, those for traces before those for all."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args
from urllib.parse import unquote, urlsplit

from gateway.errors import ConfigurationError

Compression = Literal["none", "gzip", "deflate"]

_PREFIX = "OTEL_EXPORTER_OTLP_"
_HOME = "http://localhost:4318"
_PATH = "v1/traces"
_PROTOCOL = "http/protobuf"
_TIMEOUT_S = 10.0
_SHORTEST_IN_MS = 1000.0
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


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
    given.check_protocol()
    url = given.url()
    return Destination(
        url=url,
        headers=given.headers(),
        timeout_s=given.timeout_s(),
        compression=given.compression(),
        certificate=given.file("CERTIFICATE"),
        client_certificate=given.file("CLIENT_CERTIFICATE"),
        client_key=given.file("CLIENT_KEY"),
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

    def check_protocol(self) -> None:
        name, protocol = self.named("PROTOCOL")
        if protocol not in ("", _PROTOCOL):
            hint = f"use {_PROTOCOL}, which collectors take at port 4318"
            raise ConfigurationError(f"unknown protocol {protocol!r}", where=name, hint=hint)

    def url(self) -> str:
        name, base = self.named("ENDPOINT")
        if base and not _is_address(base):  # which may hold a password
            raise ConfigurationError("this is no address", where=name, hint="write http://host:4318, or https")
        is_whole = name.endswith("_TRACES_ENDPOINT")  # the other is what paths of all signals are added to
        return base if is_whole else f"{(base or _HOME).removesuffix('/')}/{_PATH}"

    def headers(self) -> Mapping[str, str]:
        name, text = self.named("HEADERS")
        headers: dict[str, str] = {}
        for pair in filter(str.strip, text.split(",")):
            key, _, value = (unquote(part).strip() for part in pair.partition("="))
            if not (_HEADER_NAME.fullmatch(key) and value.isascii() and value.isprintable() and "=" in pair):
                # What stands there may be a secret, and is not told. OpenTelemetry's reader logs it.
                raise ConfigurationError("this is no list of headers", where=name, hint="write name=value,name=value")
            headers[key.lower()] = value
        return headers

    def file(self, last: str) -> str:
        name, path = self.named(last)
        if path and not Path(path).is_file():
            raise ConfigurationError(f"there is no file {path!r}", where=name)
        return path

    def timeout_s(self) -> float:
        """In seconds, as OpenTelemetry's SDK for Python has it; in milliseconds, as others do, where that is long."""
        name, text = self.named("TIMEOUT")
        try:
            timeout_s = float(text or _TIMEOUT_S)
        except ValueError:
            timeout_s = math.nan
        if not 0 < timeout_s < math.inf:
            raise ConfigurationError(f"{text!r} is no number of seconds", where=name)
        return timeout_s if timeout_s < _SHORTEST_IN_MS else timeout_s / 1000

    def compression(self) -> Compression:
        name, text = self.named("COMPRESSION")
        known = get_args(Compression)
        wish = text.lower() or "none"
        if wish not in known:
            raise ConfigurationError(f"unknown compression {text!r}", where=name, hint=f"use {', '.join(known)}")
        return cast("Compression", wish)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
