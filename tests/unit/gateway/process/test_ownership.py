import importlib.machinery
import importlib.metadata
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import ConfigurationError
from gateway.process.ownership import PACKAGES, check_ownership


def test_our_own_packages_are_ours() -> None:
    """In an environment of its own nothing is wrong."""
    check_ownership()


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("hollow", [True, False])
def test_a_folder_of_the_same_name_is_found_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, package: str, hollow: bool
) -> None:
    """A package in the working directory, or a folder without ``__init__``, takes the name of ours."""
    find_spec = importlib.util.find_spec
    place = None if hollow else str(tmp_path / package / "__init__.py")
    impostor = importlib.machinery.ModuleSpec(package, None, origin=place)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: impostor if name == package else find_spec(name))
    with pytest.raises(ConfigurationError, match=f"package `{package}` comes from") as caught:
        check_ownership()
    assert "PYTHONSAFEPATH=1" in caught.value.hint
    assert ("nowhere" if hollow else str(tmp_path)) in str(caught.value)


def test_another_distribution_with_the_same_package_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two distributions that install one name overwrite each other."""
    claims: Mapping[str, Any] = {"policies": ["headrace", "acme-policies"], "gateway": ["headrace"]}
    monkeypatch.setattr(importlib.metadata, "packages_distributions", lambda: claims)
    with pytest.raises(ConfigurationError, match="`policies` is claimed by acme-policies too"):
        check_ownership()
