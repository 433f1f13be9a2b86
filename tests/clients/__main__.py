"""Runs every script of a real client that is here, one after the other: ``make clients``."""

import asyncio
import importlib
import sys
from pathlib import Path

SCRIPTS = sorted(
    file.stem for file in Path(__file__).parent.glob("*.py") if "\nasync def main(" in file.read_text(encoding="utf-8")
)


def main() -> int:
    """How many of them failed."""
    failed = 0
    for name in SCRIPTS:
        sys.stdout.write(f"-- {name}\n")
        sys.stdout.flush()
        failed += bool(asyncio.run(importlib.import_module(f"tests.clients.{name}").main()))
    return failed


if __name__ == "__main__":
    sys.exit(main())
