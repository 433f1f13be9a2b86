"""``headrace check policy.yaml``: reads a policy file as ``serve`` would, starts nothing, and says what it found."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from gateway.clock import SystemClock
from gateway.commands.offline import read_world
from gateway.commands.oversights import oversights
from gateway.errors import ConfigurationError
from gateway.facts import Needs
from gateway.ports import Backend
from gateway.prices.price_book import PRICES_FILE, PriceBook
from gateway.rules.faults import Faults
from gateway.settings import read_settings


@runtime_checkable
class Needy(Protocol):
    """A backend that can tell what it needs."""

    def needs(self, model_dir: Path) -> Needs:
        """What must be there before it is started; starts nothing, and asks nobody over a network.

        Raises:
            ConfigurationError: it names something that cannot be, ``where`` being the parameter.
        """
        ...


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("policy", type=Path, help="policy file")


def run(arguments: argparse.Namespace) -> int:
    """Prints the routes, what is missing here, and what was hardly meant; 0 where the file is right."""
    policy, world = read_world(arguments.policy)
    settings = read_settings()
    needs = _needs(world.backends, settings.model_dir, file=str(arguments.policy))
    named = dict.fromkeys((*policy.secret_names(), *(name for need in needs.values() for name in need.environment)))
    unset = [name for name in named if settings.secret(name) is None]
    missing = [f"backends.{name}: {sentence}" for name, need in needs.items() for sentence in need.missing]
    for route in world.routes:
        targets = ", ".join(f"{t.backend}/{t.model}" if t.model else t.backend for t in route.targets)
        print(f"route {route.name}: {', '.join(route.models)} -> {targets}")
    hardly_meant = oversights(world, PriceBook(settings.state_dir / PRICES_FILE), now_unix_s=SystemClock().unix_s())
    for warning in (*(f"{name} is not set in this environment" for name in unset), *missing, *hardly_meant):
        print(f"warning: {warning}")
    if not world.tenancy.keys:
        print("no tenant has a key: this policy can only be served on a loopback address")
    size = f"{_counted(len(world.backends), 'backend')}, {_counted(len(world.routes), 'route')}"
    print(f"{arguments.policy}: {_verdict(len(unset), size)}")
    return 0


def _needs(backends: Mapping[str, Backend], model_dir: Path, *, file: str) -> dict[str, Needs]:
    found: dict[str, Needs] = {}
    faults = Faults()
    for name, backend in backends.items():
        try:
            found[name] = backend.needs(model_dir) if isinstance(backend, Needy) else Needs()
        except ConfigurationError as error:
            faults.add(error.within(file, part=f"backends.{name}"))
    faults.tell()
    return found


def _verdict(unset: int, size: str) -> str:
    if not unset:
        return f"fine, {size}"
    return f"right, but {_counted(unset, 'environment variable')} {'is' if unset == 1 else 'are'} not set ({size})"


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
