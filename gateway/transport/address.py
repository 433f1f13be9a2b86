"""Where an upstream lives: the parts of its base URL that a connection and a request need."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from gateway.errors import ConfigurationError

_VISIBLE = re.compile(r"[\x21-\x7e]+")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}")
_LABEL = re.compile(r"[^.]{1,63}")
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An HTTP server. ``authority`` is the value of ``Host``; ``path`` stands before the path of every request."""

    host: str
    port: int
    tls: bool
    authority: str
    path: str

    @classmethod
    def of(cls, base_url: str) -> "Address":
        """The parts of ``base_url``.

        Raises:
            ConfigurationError: it is no plain address of an HTTP server.
        """
        if not _VISIBLE.fullmatch(base_url):
            raise _wrong("must be visible ASCII", hint="a name in another script has an ASCII form, xn--...")
        try:
            url = urlsplit(base_url)
            port = url.port
        except ValueError as error:  # its text may quote what was meant to be secret
            raise _wrong("is no address") from error
        default_port = _DEFAULT_PORTS.get(url.scheme)
        if default_port is None or not url.hostname or port == 0:
            raise _wrong("must start with http:// or https:// and name a host")
        if any(mark in base_url for mark in "@?#"):
            raise _wrong("must have no user, query or fragment", hint="a key belongs in the environment")
        host = url.hostname
        if not _HOST.fullmatch(host) or not all(map(_LABEL.fullmatch, host.removesuffix(".").split("."))):
            raise _wrong("names no host")
        authority = f"[{host}]" if ":" in host else host
        return cls(
            host=host,
            port=port or default_port,
            tls=url.scheme == "https",
            authority=authority if port in {None, default_port} else f"{authority}:{port}",
            path=url.path.rstrip("/"),
        )


def _wrong(words: str, *, hint: str = "") -> ConfigurationError:
    return ConfigurationError(f"`base_url` {words}", where="base_url", hint=hint)
