"""What holds for every plugin, of every family: the suite finds them by itself."""

import ast
import inspect
import re
import sys
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest

import policies
from gateway.errors import ConfigurationError
from gateway.rules import plugins
from tests.contract.plugins_under_test import EVERY, built, every_plugin

ALLOWED = {
    "gateway.admission",
    "gateway.card",
    "gateway.types",
    "gateway.conversation",
    "gateway.forecast",
    "gateway.guard",
    "gateway.guard_mark",
    "gateway.judgement",
    "gateway.ports",
    "gateway.price",
    "gateway.request_fields",
    "gateway.errors",
    "msgspec",
    "jsonschema_rs",
    "cel",
    "re2",
}


def test_every_family_of_policies_has_a_plugin() -> None:
    """So that an empty list cannot make this suite pass."""
    assert {"classify", "admit", "filter", "cost", "rank"} <= {family for family, _ in EVERY}


@every_plugin
def test_a_plugin_is_a_frozen_dataclass_named_like_its_file(family: str, name: str) -> None:
    """`by_cost` is `ByCost`; acronyms may keep their capitals."""
    cls = plugins.load(family, name)
    assert name.replace("_", "") == cls.__name__.lower()
    with pytest.raises(AttributeError):
        built(family, name)[0].anything = 1


@every_plugin
def test_the_example_in_the_docstring_builds(family: str, name: str) -> None:
    """Documentation that has rotted fails here."""
    assert built(family, name)


@every_plugin
def test_every_parameter_is_documented_and_nothing_else(family: str, name: str) -> None:
    """Under `Attributes:`, in the order of the fields."""
    card = plugins.describe(family, name)
    section = re.search(r"^Attributes:\n((?: {4}.*\n?|\n)*)", card.text, re.MULTILINE)
    documented = re.findall(r"^ {4}(\w+): ", section.group(1), re.MULTILINE) if section else []
    assert [parameter.name for parameter in card.parameters] == documented


@every_plugin
def test_a_docstring_begins_with_a_sentence(family: str, name: str) -> None:
    """It is the line in the list of plugins."""
    assert plugins.describe(family, name).summary.endswith(".")


@every_plugin
def test_a_misspelt_parameter_is_refused(family: str, name: str) -> None:
    """By name, at its place."""
    with pytest.raises(ConfigurationError, match=r"here\.no_such_parameter: unknown parameter"):
        plugins.build(family, {"use": name, "no_such_parameter": 1}, where="here")


@every_plugin
def test_verbs_have_the_names_and_parameters_of_the_port(family: str, name: str) -> None:
    """Also those that a caller gives by name, and waited for where the port is."""
    cls, port = plugins.load(family, name), plugins.FAMILIES[family].port
    for verb in plugins.FAMILIES[family].verbs:
        expected, actual = getattr(port, verb), getattr(cls, verb)
        assert list(inspect.signature(expected).parameters) == list(inspect.signature(actual).parameters)
        assert inspect.iscoroutinefunction(expected) == inspect.iscoroutinefunction(actual)
        assert actual.__doc__, f"{verb} has no docstring"


@every_plugin
def test_what_a_plugin_learns_does_not_make_it_another_plugin(family: str, name: str) -> None:
    """A reload keeps what is configured as before: private state is neither compared, shown nor a parameter."""
    cls = plugins.load(family, name)
    for field in fields(cls):
        if not field.init:
            assert (field.name[0], field.compare, field.repr) == ("_", False, False)
    assert built(family, name) == built(family, name)


@every_plugin
def test_a_schema_can_be_made_for_it(family: str, name: str) -> None:
    """For editors and for the reference."""
    card, schema = plugins.describe(family, name), plugins.schema(family, name)
    assert [parameter.name for parameter in card.parameters] == list(schema.get("properties", {}))
    assert get_type_hints(plugins.load(family, name)) is not None


@pytest.mark.parametrize(
    "file", sorted(Path(policies.__file__).parent.rglob("*.py")), ids=lambda file: f"{file.parent.name}-{file.stem}"
)
def test_a_policy_imports_only_the_vocabulary(file: Path) -> None:
    """And its own parts, or those that families share: no I/O libraries, no other policy, no more of the kernel."""
    imported = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert 0 == node.level, "relative import"
            imported.add(node.module or "")
    parts = {name for name in imported if name.startswith((f"policies.{file.parent.name}._", "policies._"))}
    foreign = {name for name in imported if name.partition(".")[0] not in sys.stdlib_module_names} - ALLOWED - parts
    forbidden = imported & {"os", "socket", "threading", "subprocess", "time", "random", "pathlib", "logging"}
    assert (set(), set()) == (foreign, forbidden)
