"""The command line of the engine's process, and what it means."""

import sys
from typing import Literal

import msgspec

from embedded_engine.settings import EngineSettings

__all__ = ["Ownership", "engine_command"]

Ownership = Literal["own", "shared"]
"""Whose the engine is: one caller's, whose connection it is given and with which it ends; or everybody's who connects
to the listening socket it is given, until the last one has gone."""


def engine_command(ownership: Ownership, descriptor: int, settings: EngineSettings) -> tuple[str, ...]:
    """What starts an engine; the socket `descriptor` is to be inherited.

    `-P` keeps the working directory off the child's path, so that a folder there cannot stand in for this package.
    """
    module = (sys.executable, "-P", "-m", "embedded_engine.process")
    return (*module, ownership, str(descriptor), msgspec.json.encode(settings).decode())
