"""Builds the wheel and checks what is in it: our four packages and nothing else, data files included."""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGES = {"gateway", "policies", "backends", "embedded_engine"}
DATA = {
    "backends/presets.yaml",
    "gateway/py.typed",
    "gateway/rules/default_policy.yaml",
    "policies/classify/length_prior.json",
}
ROOT = Path(__file__).resolve().parents[2]


def wheel_names() -> set[str]:
    """The files of a freshly built wheel."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, str(ROOT)]
        subprocess.run(command, check=True)  # our own arguments
        (wheel,) = Path(folder).glob("headrace-*.whl")
        return set(zipfile.ZipFile(wheel).namelist())


def faults(names: set[str]) -> list[str]:
    """What is wrong with the contents, in words."""
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    found = [f"{top} does not belong in the wheel" for top in sorted(tops - PACKAGES)]
    found += [f"{top} is missing" for top in sorted(PACKAGES - tops)]
    found += [f"{name} is missing" for name in sorted(DATA - names)]
    sources = {str(path.relative_to(ROOT)) for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    return found + [f"{name} is missing" for name in sorted(sources - names)]


if __name__ == "__main__":
    sys.exit("\n".join(faults(wheel_names())) or None)
