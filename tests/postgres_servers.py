"""Real PostgreSQL servers for tests: the wheel's, or the system's where there is one."""

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_START_S = 30


def programs() -> Path | None:
    """The folder of ``initdb`` and ``pg_ctl``; ``None`` where there is no server."""
    spec = importlib.util.find_spec("pgserver")
    wheels = [Path(place) / "pginstall" / "bin" for place in (spec.submodule_search_locations or ())] if spec else []
    systems = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = [folder for folder in (*wheels, *systems) if (folder / "initdb").is_file()]
    on_path = shutil.which("initdb")
    return found[0] if found else Path(on_path).resolve().parent if on_path else None


@dataclass
class PostgresServer:
    """One server, that is started and stopped as a test likes."""

    bin: Path
    folder: Path
    port: int

    def url(self, database: str) -> str:
        """The address of a database on it."""
        return f"postgresql://headrace@127.0.0.1:{self.port}/{database}"

    def make(self) -> None:
        """Makes its files."""
        self._run("initdb", "-D", "data", "-U", "headrace", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")

    def start(self) -> None:
        """Starts it, and returns when it answers."""
        options = f"-p {self.port} -h 127.0.0.1 -k '' -c fsync=off -c shared_buffers=16MB -c max_connections=30"
        self._run("pg_ctl", "-D", "data", "-l", "log", "-w", "-t", str(_START_S), "-o", options, "start")

    def stop(self) -> None:
        """Stops it, at once."""
        self._run("pg_ctl", "-D", "data", "-w", "-m", "immediate", "stop")

    def new_database(self) -> str:
        """The address of an empty database."""
        name = f"t{uuid.uuid4().hex}"
        self._run("psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "headrace", "-d", "postgres", "-c",
                  f"CREATE DATABASE {name}")  # fmt: skip
        return self.url(name)

    def _run(self, program: str, *arguments: str) -> None:
        user = None if os.getuid() else _anybody()  # the server refuses to be root
        done = subprocess.run(
            [str(self.bin / program), *arguments],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C"},
            user=user,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=_START_S + 10,
        )
        assert 0 == done.returncode, done.stdout.decode(errors="replace")


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """A new server, for as long as the block runs."""
    folder = programs()
    assert folder is not None
    with tempfile.TemporaryDirectory(prefix="headrace-postgres-") as place:
        if not os.getuid():
            shutil.chown(place, _anybody())
        server = PostgresServer(folder, Path(place), _free_port())
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server that runs; a test that stops it starts it again."""
    if programs() is None:
        pytest.skip("there is no PostgreSQL: pip install pgserver")
    with running_server() as server:
        yield server


def _anybody() -> str:
    """A user without rights."""
    names = [user.pw_name for user in pwd.getpwall()]
    return "postgres" if "postgres" in names else "nobody"


def _free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
