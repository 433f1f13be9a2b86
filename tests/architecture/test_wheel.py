"""The check of the wheel finds what is wrong with one; ``make quick`` runs it on a wheel that it builds."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel() -> ModuleType:
    """The check, which is a script and in no package."""
    spec = importlib.util.spec_from_file_location("wheel_check", Path(__file__).with_name("wheel.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def names(wheel: ModuleType) -> set[str]:
    """What a right wheel holds."""
    sources = {str(path.relative_to(ROOT)) for package in wheel.PACKAGES for path in (ROOT / package).rglob("*.py")}
    return sources | wheel.DATA | {"headrace-0.1.0.dist-info/METADATA", "headrace-0.1.0.dist-info/licenses/LICENSE"}


def test_our_packages_and_their_data_are_a_right_wheel(wheel: ModuleType, names: set[str]) -> None:
    """Beside them only the distribution's own folder is allowed."""
    assert [] == wheel.faults(names)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("tests/conftest.py", "tests does not belong in the wheel"),
        ("setup.py", "setup.py does not belong in the wheel"),
    ],
)
def test_what_does_not_belong_is_named(wheel: ModuleType, names: set[str], extra: str, words: str) -> None:
    """A wheel that ships its tests takes a name that is not ours."""
    assert [words] == wheel.faults(names | {extra})


@pytest.mark.parametrize("lost", ["gateway/rules/default_policy.yaml", "gateway/py.typed", "policies/cost/money.py"])
def test_what_is_missing_is_named(wheel: ModuleType, names: set[str], lost: str) -> None:
    """A data file or a module that is not packed is found before somebody installs it."""
    assert [f"{lost} is missing"] == wheel.faults(names - {lost})


def test_a_package_that_is_missing_is_named(wheel: ModuleType, names: set[str]) -> None:
    """With every file that it had."""
    found = wheel.faults({name for name in names if not name.startswith("policies/")})
    assert "policies is missing" in found
    assert "policies/cost/money.py is missing" in found
