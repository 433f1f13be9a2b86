"""The address of a service that a plugin asks."""

from urllib.parse import urlsplit

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def check_address(url: str, *, plain_http: bool, example: str) -> None:
    """Refuses what is no address of a service, or what others on the way could read.

    Raises:
        ValueError: saying what, with the ``example``.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or parts.fragment:
        raise ValueError(f"`url` must be an address such as {example}, without a user")
    if parts.scheme == "http" and not (plain_http or parts.hostname in _LOOPBACK):
        raise ValueError("`url` must begin with https://, unless `plain_http` allows others to read along")
