"""One address for several workers.

On Linux each worker has a listening socket of its own (``SO_REUSEPORT``), and the kernel spreads new connections evenly
over them. Elsewhere that option does not spread, so all workers take from one socket, and who is free comes first.
"""

import socket
import sys
from collections.abc import Sequence

_SPREADS = sys.platform.startswith("linux")

_Address = tuple[socket.AddressFamily, tuple[str, int]]


class Listening:
    """The address, reserved; nobody listens yet.

    Args:
        host: a name or an address; a name may stand for several.
        port: 0 for a free one.

    Raises:
        OSError: the address is in use, or none of this machine's.
    """

    def __init__(self, host: str, port: int) -> None:
        self._reserved: list[socket.socket] = []
        try:
            for family, (address, _) in _addresses(host, port):
                if _SPREADS and port:  # others of this user's could share it: that somebody listens must not go unseen
                    _bound(family, (address, port), shared=False).close()
                reserved = _bound(family, (address, port), shared=_SPREADS)
                self._reserved.append(reserved)
                port = port or reserved.getsockname()[1]
        except BaseException:
            self.close()
            raise

    def urls(self) -> tuple[str, ...]:
        """The base URL of the API at each address."""
        return tuple(map(base_url, self._reserved))

    def for_worker(self) -> Sequence[socket.socket]:
        """Sockets for one worker to listen on; the caller closes them."""
        if not _SPREADS:
            return [reserved.dup() for reserved in self._reserved]
        sockets: list[socket.socket] = []
        try:
            for reserved in self._reserved:
                sockets.append(_bound(reserved.family, reserved.getsockname()[:2], shared=True))  # noqa: PERF401  # what was opened is closed below
        except BaseException:
            for opened in sockets:
                opened.close()
            raise
        return sockets

    def close(self) -> None:
        """Gives the address back, as far as no worker has it."""
        for reserved in self._reserved:
            reserved.close()


def base_url(listening: socket.socket, *, tls: bool = False) -> str:
    """The base URL of the API at a socket."""
    host, port = listening.getsockname()[:2]
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}/v1"


def _addresses(host: str, port: int) -> list[_Address]:
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, (str(place[0]), int(place[1]))) for family, _, _, _, place in found))


def _bound(family: int, place: tuple[str, int], *, shared: bool) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(place)
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"cannot listen on {place[0]} port {place[1]}: {error.strerror}".lower()) from error
    return bound
