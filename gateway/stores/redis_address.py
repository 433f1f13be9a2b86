"""Where Redis or Valkey is, from one URL.

Standalone is ``redis://host:6379/0`` or ``unix:///path?db=0``; behind Sentinel it is
``redis+sentinel://host:26379,host2:26379/master-name/0``, a Cluster ``redis+cluster://host:6379,host2:6379``. With
``rediss`` for ``redis`` it is TLS. User and password stand before the ``@``, as everywhere.
"""

from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from gateway.errors import ConfigurationError

_PORT = 6379
_SENTINEL_PORT = 26379
_SCHEMES = ("redis", "rediss", "unix")
_WAYS = ("", "sentinel", "cluster")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RedisAddress:
    """Where the store is and how to get in. Never shown: it holds a password.

    ``way`` is ``sentinel``, ``cluster`` or empty; ``path`` is a Unix socket's, and ``hosts`` are empty then.
    """

    way: str
    tls: bool
    hosts: tuple[tuple[str, int], ...]
    master: str
    path: str
    database: int
    username: str | None
    password: str | None

    def __repr__(self) -> str:
        return f"RedisAddress({self.way or 'standalone'}, {len(self.hosts)} hosts)"


def read_redis_address(url: str) -> RedisAddress:
    """The address that a URL names.

    Raises:
        ConfigurationError: it names none; the URL itself is not repeated.
    """
    try:
        return _address(urlsplit(url))
    except ValueError as error:
        hint = "redis://[user:password@]host:6379/0, redis+sentinel://host,host/master or redis+cluster://host,host"
        raise ConfigurationError(f"HEADRACE_REDIS_URL: {error}", hint=hint) from None


def _address(parts: SplitResult) -> RedisAddress:
    scheme, _, way = parts.scheme.partition("+")
    socket = scheme == "unix"
    if scheme not in _SCHEMES or way not in _WAYS or (socket and way):
        raise ValueError("the scheme is none that is known")
    credentials, _, places = parts.netloc.rpartition("@")
    username, _, password = credentials.partition(":")
    port = _SENTINEL_PORT if way == "sentinel" else _PORT
    tail = parts.path.strip("/")
    master, _, number = tail.partition("/") if way == "sentinel" else ("", "", tail)
    if way == "sentinel" and not master:
        raise ValueError("the master's name is missing after the `/`")
    if socket:
        number = parse_qs(parts.query).get("db", ["0"])[0]
    if number and not number.isdecimal():
        raise ValueError("the database is no number")
    return RedisAddress(
        way=way,
        tls=scheme == "rediss",
        hosts=() if socket else tuple(_host(place, port) for place in places.split(",")),
        master=unquote(master),
        path=parts.path if socket else "",
        database=int(number or 0),
        username=unquote(username) or None,
        password=unquote(password) or None,
    )


def _host(place: str, default_port: int) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{place}")
        port = parts.port
    except ValueError:
        raise ValueError("a port is no number") from None
    if not parts.hostname:
        raise ValueError("a host is missing")
    return parts.hostname, port or default_port
