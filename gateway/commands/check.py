"""``headrace check policy.yaml``: reads a policy file as ``serve`` would, starts nothing, and says what it found."""

import argparse
from pathlib import Path

from gateway.commands.offline import read_world
from gateway.settings import read_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("policy", type=Path, help="policy file")


def run(arguments: argparse.Namespace) -> int:
    """Prints the routes and what is missing in the environment; 0 where the file is right."""
    policy, world = read_world(arguments.policy)
    settings = read_settings()
    for route in world.routes:
        targets = ", ".join(f"{t.backend}/{t.model}" if t.model else t.backend for t in route.targets)
        print(f"route {route.name}: {', '.join(route.models)} -> {targets}")
    for name in policy.secret_names():
        if settings.secret(name) is None:
            print(f"warning: {name} is not set in this environment")
    if not world.keys:
        print("no tenant has a key: this policy can only be served on a loopback address")
    print(f"{arguments.policy}: fine, {len(world.backends)} backends, {len(world.routes)} routes")
    return 0
