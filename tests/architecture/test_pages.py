"""What is written for people can be found, and is whole."""

import re
from pathlib import Path

from gateway.endpoints import OPERATIONS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_leads_to_every_page() -> None:
    """Once each: a page that is on no list is read by nobody."""
    pages = sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))
    listed = re.findall(r"^\* \[\S+\]\((docs/[\w-]+\.md)\)", README, re.MULTILINE)
    assert pages == sorted(listed)


def test_the_readme_names_every_endpoint_of_inference() -> None:
    """In its table, by the path that clients ask for."""
    table = "".join(line for line in README.splitlines() if line.startswith("| `"))
    assert [] == [path for path in OPERATIONS if f"{path}`" not in table]


def test_decisions_are_numbered_one_by_one() -> None:
    """Each has a number of its own, in its name and over its text."""
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    titles = [page.read_text(encoding="utf-8").partition("\n")[0] for page in pages]
    numbers = list(range(1, len(pages) + 1))
    assert numbers == [int(page.name[:4]) for page in pages]
    assert numbers == [int(title.removeprefix("# ").partition(".")[0]) for title in titles]
