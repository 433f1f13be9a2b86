"""The plugins that the suites run over: all of them, found by themselves, and built from their own examples."""

import re
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from gateway.rules import plugins
from gateway.rules.guard_specs import split

EVERY = [(family, name) for family in plugins.FAMILIES for name in plugins.names(family)]


def named(*families: str) -> Any:
    """Runs a test for each plugin of these families."""
    chosen = [(family, name) for family, name in EVERY if family in families]
    return pytest.mark.parametrize(("family", "name"), chosen, ids=[f"{family}-{name}" for family, name in chosen])


every_plugin = named(*plugins.FAMILIES)


def examples(family: str, name: str) -> Iterator[Any]:
    """Every spec of the plugin in the YAML block under ``Example::`` of its docstring."""
    text = plugins.describe(family, name).text
    _, found, after = text.partition("Example::\n")
    block = re.match(r"(?:\s*\n|[ ]{4}.*(?:\n|$))*", after)
    assert found, "the docstring has no `Example::`"
    assert block, "nothing is indented under `Example::`"
    found_specs = _specs(yaml.safe_load(textwrap.dedent(block.group())), name)
    yield from (split(spec)["use"] for spec in found_specs) if family == "guard" else found_specs


def _specs(node: Any, name: str) -> Iterator[Any]:
    if node == name or (isinstance(node, dict) and node.get("use") == name):
        yield node
    elif isinstance(node, dict):
        for value in node.values():
            yield from _specs(value, name)
    elif isinstance(node, list):
        for value in node:
            yield from _specs(value, name)


def built(family: str, name: str) -> list[Any]:
    """The plugin, as each of its examples has it."""
    return [plugins.build(family, spec, where="example") for spec in examples(family, name)]
