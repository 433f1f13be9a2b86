"""The two C programs: built where they are out of date, the upstream run, the load client asked for a report."""

import http.client
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BIN = HERE / "bin"
HOST = "127.0.0.1"

_READY_S = 30.0
_POLL_S = 0.01


def build(name: str) -> Path:
    """The program ``name``, compiled anew where a source is younger than it.

    Raises:
        SystemExit: there is no C compiler, or it does not take the source.
    """
    program = BIN / name
    sources = [HERE / f"{name}.c", *HERE.glob("*.h")]
    if program.exists() and program.stat().st_mtime > max(source.stat().st_mtime for source in sources):
        return program
    compiler = shutil.which("cc")
    if compiler is None:
        raise SystemExit("a C compiler is needed: `cc` is not on PATH")
    BIN.mkdir(exist_ok=True)
    flags = ["-O2", "-Wall", "-Wextra", "-Werror"]
    if subprocess.run([compiler, *flags, "-o", program, sources[0]], check=False).returncode:
        raise SystemExit(f"{name}.c does not compile")
    return program


def free_port() -> int:
    """A port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def get(port: int, path: str, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    """Status and body of a GET on loopback."""
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    try:
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def wait_until_up(process: "subprocess.Popen[bytes]", port: int, path: str) -> float:
    """Seconds until ``path`` answers 200.

    Raises:
        RuntimeError: the process ended, or stayed silent for half a minute.
    """
    begun_s = time.monotonic()
    while time.monotonic() - begun_s < _READY_S:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
        try:
            if get(port, path)[0] == http.HTTPStatus.OK:
                return time.monotonic() - begun_s
        except OSError:
            time.sleep(_POLL_S)
    raise RuntimeError(f"{process.args!r} did not answer within {_READY_S:g} s")


def stop(process: "subprocess.Popen[bytes]", patience_s: float = 20.0) -> int:
    """Ends a process that we started, by force where it does not listen, and gives its exit code."""
    process.terminate()
    try:
        return process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


@dataclass(frozen=True, slots=True)
class Upstream:
    """The running upstream."""

    port: int
    pid: int

    def stats(self) -> dict[str, int]:
        """Its counters: see ``upstream.c``."""
        counters: dict[str, int] = json.loads(get(self.port, "/stats")[1])
        return counters

    def serve(self, words: str) -> None:
        """Says how to serve from now on, as in ``chunks=32 delay_us=50000``; nothing said is as after the start."""
        get(self.port, f"/usual?{words.replace(' ', '&')}")


@contextmanager
def run_upstream() -> Iterator[Upstream]:
    """Runs the upstream on a free port."""
    port = free_port()
    process = subprocess.Popen([build("upstream"), str(port)])
    try:
        wait_until_up(process, port, "/stats")
        yield Upstream(port, process.pid)
    finally:
        stop(process)


def load(port: int, options: Sequence[str], *, timeout_s: float) -> dict[str, Any]:
    """Runs the load client against ``port`` and gives its report: see ``load.c`` for both."""
    command = [str(build("load")), "--port", str(port), *options]
    report: dict[str, Any] = json.loads(
        subprocess.run(command, check=True, capture_output=True, timeout=timeout_s).stdout
    )
    return report
