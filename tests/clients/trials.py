"""What is tried with a client that is a library: which of its calls, and what it has to say after each."""

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tests.clients.scripted import (
    VECTOR,
    Work,
    gateway_over,
    gateway_over_chat,
    node_folder_with,
    python_with,
    run,
    run_node,
)

WEATHER = Work(tool="weather", arguments={"city": "Paris"}, last="It rains in Paris.")
MADE_UP = "This answer is made up."
"""What the backend ``fake`` says and hears."""
ENDINGS: Mapping[str, str] = {
    "whole": WEATHER.last,
    "streamed": WEATHER.last,
    "tools": f"Paris, then {WEATHER.last}",
    "streamed tools": f"Paris, then {WEATHER.last}",
    "structured": "Paris",
    "streamed structured": "Paris",
    "vectors": " ".join(str(number) for number in VECTOR),
    "sound": MADE_UP,
    "sound in events": MADE_UP,
    "transcripts": MADE_UP,
    "streamed transcripts": MADE_UP,
    "pictures": "2",
    "verdicts": "False",
    "documents": "0 1",
}
"""What a client's program prints behind the name of what it tried: all that came out of the client itself."""

EVERYTHING = ("whole", "streamed", "tools", "streamed tools", "structured")
"""What most libraries do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client, as ``docs/clients.md`` has it in a row of its table.

    Attributes:
        name: what people call it.
        package: what is installed, with its registry where that is not Python's: ``npm openai``.
        sets: what a user sets for it to come here, as Markdown.
        tried: for each endpoint what was tried, in the words of ``ENDINGS`` or in other words.
    """

    name: str
    package: str
    sets: str
    tried: Mapping[str, tuple[str, ...]]

    @property
    def lines(self) -> set[str]:
        """What the program of a library prints when all of it went well."""
        return {f"{path} {what}: {ENDINGS[what]}" for path, whats in self.tried.items() for what in whats}


async def try_python(client: Client, module: str, program: str, *, over_fake: bool = False) -> int:
    """Runs a program of a Python library in an environment that has ``module``; 0 where it said all that it should.

    ``over_fake``: over the made-up backend, which has sound and pictures, in the place of an upstream of chats.

    Raises:
        RuntimeError: the program failed; its words are in the error.
    """
    python = python_with(module)
    if python is None:
        return _skipped(client)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {"PATH": os.environ["PATH"], "HOME": name}
        asked = f"import importlib.metadata as known; print(known.version({client.package!r}))"
        version = await run(python, "-c", asked, folder=folder, environment=environment)
        async with gateway_over({"fake": {"use": "fake"}}, {}) if over_fake else _over_chat() as address:
            given = {**environment, "ADDRESS": address}
            said = await run(python, "-c", program, folder=folder, environment=given)
    return _compared(client, version.strip(), said)


@asynccontextmanager
async def _over_chat() -> AsyncIterator[str]:
    async with gateway_over_chat(WEATHER) as (address, _):
        yield address


async def try_node(client: Client, program: str) -> int:
    """The same for a module of Node.

    Raises:
        RuntimeError: the program failed; its words are in the error.
    """
    package = client.package.removeprefix("npm ")
    folder = node_folder_with(package)
    if folder is None:
        return _skipped(client)
    async with gateway_over_chat(WEATHER) as (address, _):
        said = await run_node(program, folder, {"ADDRESS": address})
    version = msgspec.json.decode((folder / "node_modules" / package / "package.json").read_bytes())["version"]
    return _compared(client, version, said)


def _skipped(client: Client) -> int:
    sys.stdout.write(f"skipped: {client.package} is not installed here\n")
    return 0


def _compared(client: Client, version: str, said: str) -> int:
    missing = client.lines - set(said.splitlines())
    tried = "; ".join(f"{path}: {', '.join(whats)}" for path, whats in client.tried.items())
    sys.stdout.write(f"{client.name} {version}: {tried}\n")
    if missing:
        sys.stdout.write(f"did not say {sorted(missing)}, but:\n{said}\n")
    return len(missing)
