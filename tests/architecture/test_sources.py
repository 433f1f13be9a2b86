"""Rules that every source file of ours keeps, read from the sources themselves."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("gateway", "policies", "backends", "embedded_engine")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
MOST_FILE_LINES = 300
MOST_FUNCTION_LINES = 40

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

every_source = pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))


@every_source
def test_a_file_fits_in_the_head(path: Path) -> None:
    """Fewer than 300 lines."""
    assert len(path.read_text().splitlines()) < MOST_FILE_LINES


@every_source
def test_a_function_fits_on_the_screen(path: Path) -> None:
    """Fewer than 40 lines, the docstring not counted: it is there to be long where it has to."""
    too_long = {
        node.name: lines
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (lines := _lines(node)) >= MOST_FUNCTION_LINES
    }
    assert {} == too_long


@every_source
def test_whatever_is_public_is_documented(path: Path) -> None:
    """Modules, classes, functions and methods without an underscore say what they are."""
    tree = ast.parse(path.read_text())
    silent = [node.name for node in _public(tree) if not ast.get_docstring(node)]
    if path.name != "__init__.py" and not ast.get_docstring(tree):
        silent.append("the module")
    assert [] == silent


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if path.name == "__init__.py"], ids=lambda path: str(path.relative_to(ROOT))
)
def test_a_package_is_empty(path: Path) -> None:
    """Importing a package loads nothing."""
    assert "" == path.read_text()


def test_the_environment_has_one_reader() -> None:
    """``os.environ`` and ``os.getenv`` stand in the settings and nowhere else."""
    readers = {path.relative_to(ROOT).as_posix() for path in SOURCES if _reads_environment(path)}
    assert {"gateway/settings.py"} == readers


def test_every_package_is_marked_as_typed() -> None:
    """Type checkers of those who use us read our annotations."""
    assert [] == [package for package in PACKAGES if not (ROOT / package / "py.typed").exists()]


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """From ``def`` to the end."""
    first, docstring = node.body[0], ast.get_docstring(node, clean=False)
    documented = docstring is not None and first.end_lineno is not None
    hidden = first.end_lineno - first.lineno + 1 if documented else 0
    return node.end_lineno - node.lineno + 1 - hidden


def _public(tree: ast.Module | ast.ClassDef) -> Iterator[Definition]:
    for node in tree.body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from _public(node)


def _reads_environment(path: Path) -> bool:
    return any(
        (isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv"})
        or (isinstance(node, ast.ImportFrom) and node.module == "os" and {"environ", "getenv"} & _names(node))
        for node in ast.walk(ast.parse(path.read_text()))
    )


def _names(node: ast.ImportFrom) -> set[str]:
    return {alias.name for alias in node.names}
