"""What an upstream's address may look like, told when the policy file is read and not when the first request fails."""

from urllib.parse import urlsplit


def check_base_url(base_url: str) -> None:
    """Checks that ``base_url`` is a plain address of an HTTP server.

    Raises:
        ValueError: it is none. Keys have no place in it: addresses are logged.
    """
    if not base_url:
        raise ValueError("`base_url` or `preset` must be given")
    try:
        url = urlsplit(base_url)
        names_host = bool(url.hostname) and url.port != 0
    except ValueError:  # its text may quote what was meant to be secret
        names_host = False
    if not names_host or not base_url.isascii() or url.scheme not in {"http", "https"}:
        raise ValueError("`base_url` must start with http:// or https:// and name a host")
    if any(mark in base_url for mark in "@?#"):
        raise ValueError("`base_url` must have no user, query or fragment: a key belongs in the environment")
