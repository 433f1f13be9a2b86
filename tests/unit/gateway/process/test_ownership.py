import importlib.machinery
import importlib.util
from collections.abc import Mapping
from pathlib import Path

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


def _install(place: Path, name: str, files: Mapping[str, str]) -> None:
    """A distribution of this name beside ours, as an installer leaves it."""
    folder = place / f"{name}-1.0.dist-info"
    folder.mkdir()
    for file, text in {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", **files}.items():
        (folder / file).write_text(text)


@pytest.mark.parametrize(
    "files",
    [
        {"RECORD": "acme/__init__.py,,\npolicies/__init__.py,sha256=00,12\n"},
        {"RECORD": "policies.py,,\n"},
        {"top_level.txt": "acme\npolicies\n"},
    ],
)
def test_another_distribution_with_the_same_package_is_found_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: Mapping[str, str]
) -> None:
    """Two distributions that install one name overwrite each other."""
    _install(tmp_path, "acme-policies", files)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match="`policies` is claimed by acme-policies too"):
        check_ownership()


@pytest.mark.parametrize(
    "files",
    [
        {"RECORD": "acme/policies/__init__.py,,\npolicies_of_acme/__init__.py,,\n"},
        {"top_level.txt": "acme\n", "RECORD": "policies/__init__.py,,\n"},
        {},
    ],
)
def test_a_distribution_that_has_none_of_our_packages_is_let_be(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: Mapping[str, str]
) -> None:
    """A folder of that name further down is no package of that name, and what a distribution says itself goes first."""
    _install(tmp_path, "acme", files)
    monkeypatch.syspath_prepend(tmp_path)
    check_ownership()
