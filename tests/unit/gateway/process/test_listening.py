import errno
import socket

import pytest

from gateway.process import listening as module
from gateway.process.listening import Listening, base_url


@pytest.fixture(params=[True, False], ids=["spread", "shared"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Both ways to share an address: a socket each, which this system must spread over, or one for all."""
    if request.param and not module._SPREADS:
        pytest.skip("this system does not spread connections over sockets")
    monkeypatch.setattr(module, "_SPREADS", request.param)
    return bool(request.param)


def _serve(sockets: list[socket.socket]) -> str:
    """Accepts one connection on any of the sockets and says what was sent."""
    for listener in sockets:
        listener.settimeout(0.05)
    for _ in range(100):
        for listener in sockets:
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection:
                return connection.recv(10).decode()
    raise AssertionError("nobody was connected")


@pytest.mark.usefixtures("way")
def test_workers_listen_on_one_port() -> None:
    """Port 0 is one free port for all workers, and each connection comes to one of them."""
    listening = Listening("127.0.0.1", 0)
    workers = [listening.for_worker() for _ in range(3)]
    sockets = [opened for worker in workers for opened in worker]
    assert 3 == len(sockets)
    assert set(listening.urls()) == set(map(base_url, sockets))
    for opened in sockets:
        opened.listen()
    with socket.create_connection(sockets[0].getsockname()) as client:
        client.sendall(b"hello")
        assert "hello" == _serve(sockets)
    for opened in sockets:
        opened.close()
    listening.close()


@pytest.mark.usefixtures("way")
def test_who_is_replaced_leaves_the_address_reserved() -> None:
    """A worker's sockets may close and be opened anew, on the same port."""
    listening = Listening("127.0.0.1", 0)
    places = []
    for _ in range(2):
        (opened,) = listening.for_worker()
        opened.listen()
        places.append(opened.getsockname())
        opened.close()
    assert places[0] == places[1]
    listening.close()


@pytest.mark.usefixtures("way")
def test_an_address_that_somebody_listens_on_is_refused() -> None:
    """Even where the system would let the two of us share it."""
    with socket.socket() as other:
        if hasattr(socket, "SO_REUSEPORT"):
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(OSError, match="address already in use") as caught:
            Listening("127.0.0.1", other.getsockname()[1])
    assert errno.EADDRINUSE == caught.value.errno


def test_a_host_that_is_none() -> None:
    """What no resolver knows is an error of the operating system, too."""
    with pytest.raises(OSError, match=r".+"):
        Listening("no.such.host.invalid", 0)


@pytest.mark.skipif(not socket.has_ipv6, reason="this system has no IPv6")
def test_an_address_of_version_6_is_written_in_brackets() -> None:
    """As a URL wants it."""
    try:
        listening = Listening("::1", 0)
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    (url,) = listening.urls()
    listening.close()
    assert url.startswith("http://[::1]:")
