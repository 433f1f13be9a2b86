"""``headrace plugins``: what can be used in a policy file, and what each takes."""

import argparse
import re

from gateway.errors import ConfigurationError
from gateway.rules import plugins
from gateway.rules.plugins import PluginCard


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    what = "a family (`cost`), a plugin (`money`; `cost/money` where names clash), or a class of yours (`acme.geo:Far`)"
    parser.add_argument("name", nargs="?", help=what)


def run(arguments: argparse.Namespace) -> int:
    """Prints all plugins, one family's, or one plugin's documentation and parameters."""
    name = arguments.name
    if name is None or name in plugins.FAMILIES:
        for family in plugins.FAMILIES if name is None else (name,):
            print(f"{family}:")
            for plugin in plugins.names(family):
                print(f"  {plugin:<20} {plugins.describe(family, plugin).summary}")
        return 0
    print("\n".join(_lines(_card(name))))
    return 0


def _card(name: str) -> PluginCard:
    family, slash, rest = name.partition("/")
    if slash:
        return plugins.describe(family, rest)
    if ":" in name:
        return _foreign(name)
    homes = [family for family in plugins.FAMILIES if name in plugins.names(family)]
    if not homes:
        known = ", ".join(f"{family}/{plugin}" for family in plugins.FAMILIES for plugin in plugins.names(family))
        raise ConfigurationError(f"there is no plugin `{name}`", hint=f"there are {known}")
    return plugins.describe(homes[0], name)


def _foreign(name: str) -> PluginCard:
    """The class of somebody else's package: of the family whose verbs it has."""
    faults: dict[str, str] = {}
    for family in plugins.FAMILIES:
        try:
            return plugins.describe(family, name)
        except ConfigurationError as error:
            faults.setdefault(str(error).replace(f" {family} ", " "), error.bare)
    if len(faults) == 1:  # the same for every family: it cannot be loaded at all
        raise ConfigurationError(next(iter(faults.values())), hint="is its package installed here, or on PYTHONPATH?")
    verbs = "; ".join(f"{key}: `{', '.join(family.verbs)}`" for key, family in plugins.FAMILIES.items())
    raise ConfigurationError(f"`{name}` is a plugin of no family", hint=f"verbs are {verbs}")


def _lines(card: PluginCard) -> list[str]:
    lines = [f"{card.family}/{card.name}", "", _as_plain_text(card.text), "", "Parameters:"]
    for parameter in card.parameters:
        default = "must be given" if parameter.default is None else f"default {parameter.default}"
        unit = f", {parameter.unit}" if parameter.unit else ""
        lines.append(f"  {parameter.name}: {parameter.type}{unit}; {default}")
    return lines if card.parameters else lines[:-2]


def _as_plain_text(docstring: str) -> str:
    """Without the marks that only a documentation generator reads."""
    alone = re.sub(r"^ *::\n\n?", "", docstring, flags=re.MULTILINE)
    return re.sub(r"::$", ":", alone, flags=re.MULTILINE).replace("``", "`")
