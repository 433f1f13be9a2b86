"""The policy files that ship, by name: what runs by default, and the field's published rules."""

from collections.abc import Mapping
from pathlib import Path

from gateway.errors import ConfigurationError
from gateway.rules.parameters import did_you_mean

_HERE = Path(__file__).parent


def preset_files() -> Mapping[str, Path]:
    """Each preset's file, by name."""
    shipped = {path.stem: path for path in sorted((_HERE / "presets").glob("*.yaml"))}
    return {"default": _HERE / "default_policy.yaml", **shipped}


def policy_path(name: str) -> Path:
    """The policy file that ``name`` means: a file where there is one, else a preset.

    Raises:
        ConfigurationError: it is neither.
    """
    path = Path(name)
    if path.exists() or path.suffix or path.name != name:
        return path
    presets = preset_files()
    if name not in presets:
        raise ConfigurationError("this is neither a file nor a preset", file=name, hint=did_you_mean(name, presets))
    return presets[name]
