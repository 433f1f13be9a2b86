"""Installs the peers below ``bin/peers``, each apart from all others, and runs those that are there.

    make peers                                             all of them
    python tests/benchmarks/installed_peers.py litellm     one

A peer that cannot be installed is named with the reason, and the others go on.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path

from peers import PEERS, Peer
from programs import BIN, HOST, free_port, stop
from servers import Server, ask

HOMES = BIN / "peers"
_INSTALL_S = 900.0
_START_S = 90.0
_POLL_S = 0.02
_PROGRAM_FOLDERS = ("/usr/sbin", "/usr/local/sbin")
_LAST_WORDS = 300


class Absent(Exception):
    """A peer cannot be run here; the text says why."""


class NoAnswer(Exception):
    """A server that was started does not answer; the text says what it did."""


def install(peer: Peer) -> None:
    """Installs it, unless what it asks for is installed already.

    Raises:
        Absent: it could not be installed; nothing is left of it then.
    """
    home, wanted = HOMES / peer.name, json.dumps([peer.pip, peer.npm, dict(peer.npm_overrides)])
    receipt = home / "installed.json"
    if receipt.exists() and receipt.read_text() == wanted:
        return
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    try:
        if peer.pip:
            _run([_program(peer.python), "-m", "venv", str(home)])
            _run([str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", *peer.pip])
        if peer.npm:
            (home / "package.json").write_text(json.dumps({"overrides": dict(peer.npm_overrides)}))
            _run([_program("npm"), "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(home), *peer.npm])
        if peer.debian:
            _program(peer.command[0])
    except Absent:
        shutil.rmtree(home)
        raise
    receipt.write_text(wanted)


@contextmanager
def run_peer(peer: Peer, folder: Path, upstream_port: int) -> Iterator[Server]:
    """Runs it before the upstream, from when it answers a chat request.

    Raises:
        Absent: it is not installed, or it does not start.
    """
    home, port = HOMES / peer.name, free_port()
    if not (home / "installed.json").exists():
        raise Absent("not installed: make peers")
    values = {"home": home, "folder": folder, "port": port, "other_port": free_port()}
    values["upstream"] = f"{HOST}:{upstream_port}"
    for name, text in peer.files.items():
        (folder / name).write_text(text.format(**values))
    command = [part.format(**values) for part in peer.command]
    environment = {**os.environ, **peer.environment}
    headers = tuple(header.format(**values) for header in peer.headers)
    log = folder / "log"
    begun_s = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(
            [_program(command[0]), *command[1:]],
            cwd=folder,
            env=environment,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        if peer.tells_port:
            port = _told_port(process, folder / "port")
        server = Server(
            name=peer.name,
            port=port,
            pid=process.pid,
            start_up_s=0,
            state=folder,
            path=peer.path,
            model=peer.model,
            headers=headers,
        )
        _until_it_answers(process, server)
        yield replace(server, start_up_s=time.monotonic() - begun_s)
    except NoAnswer as reason:
        raise Absent(f"it does not start: {reason}; {_last_words(log.read_text(errors='replace'))}") from reason
    finally:
        stop(process)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _told_port(process: "subprocess.Popen[bytes]", file: Path) -> int:
    for _ in _while_it_starts(process):
        if file.exists() and (text := file.read_text()):
            return int(text)
    raise NoAnswer("it did not say its port")


def _until_it_answers(process: "subprocess.Popen[bytes]", server: Server) -> None:
    said = "no answer"
    for _ in _while_it_starts(process):
        try:
            ask(server)
        except (OSError, HTTPException) as reason:
            said = str(reason)
        else:
            return
    raise NoAnswer(said)


def _while_it_starts(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    until_s = time.monotonic() + _START_S
    while time.monotonic() < until_s:
        yield
        if process.poll() is not None:
            raise NoAnswer(f"it ended with {process.returncode}")
        time.sleep(_POLL_S)


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, timeout=_INSTALL_S, check=False, text=True)
    except subprocess.TimeoutExpired as reason:
        raise Absent(f"{command[0]} took longer than {_INSTALL_S:g} s") from reason
    if done.returncode:
        raise Absent(_last_words(done.stderr or done.stdout))


def _program(name: str) -> str:
    found = shutil.which(name, path=os.pathsep.join((os.environ["PATH"], *_PROGRAM_FOLDERS)))
    if found is None:
        raise Absent(f"{name} is not installed")
    return found


def _last_words(text: str) -> str:
    return " ".join(text.split())[-_LAST_WORDS:]


def main() -> int:
    """Installs and says what is there."""
    parser = argparse.ArgumentParser(description="Installs the other gateways of the overhead benchmark.")
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(peer.name for peer in PEERS)}")
    names = parser.parse_args().names
    for peer in PEERS:
        if not names or peer.name in names:
            try:
                install(peer)
                print(f"{peer.name}: installed")
            except Absent as reason:
                print(f"{peer.name}: absent: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
