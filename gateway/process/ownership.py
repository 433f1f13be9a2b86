"""Makes sure that our four packages are ours: their names are plain words that somebody else may use too."""

import importlib.metadata
import importlib.util
from pathlib import Path

from gateway.errors import ConfigurationError

DISTRIBUTION = "headrace"
PACKAGES = ("gateway", "policies", "backends", "embedded_engine")


def check_ownership() -> None:
    """Refuses to start where a package would be somebody else's.

    Two things can take a name: a folder in the working directory, and another distribution that installs over ours.

    Raises:
        ConfigurationError: naming the package and who has it.
    """
    home = Path(__file__).resolve().parents[2]
    claims = importlib.metadata.packages_distributions()
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin is None or origin.parent.parent != home:
            where = origin.parent if origin else "nowhere"
            hint = "start elsewhere, or set PYTHONSAFEPATH=1"
            raise ConfigurationError(f"the package `{package}` comes from {where}, not from Headrace", hint=hint)
        others = sorted(set(claims.get(package, ())) - {DISTRIBUTION})
        if others:
            hint = "give Headrace an environment of its own"
            raise ConfigurationError(f"the package `{package}` is claimed by {', '.join(others)} too", hint=hint)
