"""Makes sure that our four packages are ours: their names are plain words that somebody else may use too."""

import importlib.metadata
import importlib.util
import re
from importlib.metadata import Distribution
from pathlib import Path

from gateway.errors import ConfigurationError

DISTRIBUTION = "headrace"
PACKAGES = ("gateway", "policies", "backends", "embedded_engine")

_INSTALLED = re.compile(rf"^({'|'.join(PACKAGES)})[/.]", re.MULTILINE)


def check_ownership() -> None:
    """Refuses to start where a package would be somebody else's.

    Two things can take a name: a folder in the working directory, and another distribution that installs over ours.

    Raises:
        ConfigurationError: naming the package and who has it.
    """
    home = Path(__file__).resolve().parents[2]
    claims = _claims()
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin is None or origin.parent.parent != home:
            where = origin.parent if origin else "nowhere"
            hint = "start elsewhere, or set PYTHONSAFEPATH=1"
            raise ConfigurationError(f"the package `{package}` comes from {where}, not from Headrace", hint=hint)
        if others := sorted(claims[package]):
            hint = "give Headrace an environment of its own"
            raise ConfigurationError(f"the package `{package}` is claimed by {', '.join(others)} too", hint=hint)


def _claims() -> dict[str, set[str]]:
    """Which other distributions install each of our packages.

    `packages_distributions` tells it of every package there is: with some hundred installed that takes 5 MiB that stay,
    and a tenth of a second.
    """
    claims: dict[str, set[str]] = {package: set() for package in PACKAGES}
    for distribution in importlib.metadata.distributions():
        for package in _packages_of(distribution) & claims.keys():
            claims[package].add(distribution.metadata["Name"])
    return {package: names - {DISTRIBUTION} for package, names in claims.items()}


def _packages_of(distribution: Distribution) -> set[str]:
    """What it says that it installs; where it says nothing, those of our packages into which it put a file."""
    declared = distribution.read_text("top_level.txt")
    return set(declared.split()) if declared else set(_INSTALLED.findall(distribution.read_text("RECORD") or ""))
