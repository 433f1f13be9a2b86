"""A world that is read and never started, for commands that only look."""

from pathlib import Path

from gateway.rules.policy_file import PolicyFile, read_policy
from gateway.rules.world import World, build_world


def read_world(path: Path) -> tuple[PolicyFile, World]:
    """The policy file and its world.

    Raises:
        ConfigurationError: as ``serve`` would.
    """
    policy = read_policy(path)
    return policy, build_world(policy, file=str(path))
