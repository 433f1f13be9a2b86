"""Where Redis is, by URL."""

import pytest

from gateway.errors import ConfigurationError
from gateway.stores.redis_address import read_redis_address


@pytest.mark.parametrize(
    ("url", "way", "hosts", "tls"),
    [
        ("redis://localhost", "", (("localhost", 6379),), False),
        ("rediss://u:p%40ss@h:7000/3", "", (("h", 7000),), True),
        ("redis+sentinel://a,b:26380/main/2", "sentinel", (("a", 26379), ("b", 26380)), False),
        ("rediss+cluster://[::1]:7000,h", "cluster", (("::1", 7000), ("h", 6379)), True),
    ],
)
def test_the_address_says_where_and_how(url: str, way: str, hosts: tuple[tuple[str, int], ...], *, tls: bool) -> None:
    """Each topology has its scheme."""
    address = read_redis_address(url)
    assert (way, hosts, tls) == (address.way, address.hosts, address.tls)
    assert "p@ss" not in repr(address)


@pytest.mark.parametrize(
    "url", ["http://pw@h", "redis://u:pw@", "redis+sentinel://:pw@h", "redis://:pw@h:x", "redis://:pw@h/abc", "pw@h:1"]
)
def test_a_wrong_address_is_refused_without_repeating_it(url: str) -> None:
    """The message names the variable and how it should look."""
    with pytest.raises(ConfigurationError, match="HEADRACE_REDIS_URL") as caught:
        read_redis_address(url)
    assert "pw" not in str(caught.value)
