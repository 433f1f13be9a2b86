"""``headrace plugins``: what can be used in a policy file, and what each takes."""

import argparse

from gateway import plugins
from gateway.errors import ConfigurationError
from gateway.plugins import PluginCard


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("name", nargs="?", help="describe this plugin: `money`, or `cost/money` where names clash")


def run(arguments: argparse.Namespace) -> int:
    """Prints the list, or one plugin's documentation and parameters."""
    if arguments.name is None:
        for family in plugins.FAMILIES:
            print(f"{family}:")
            for name in plugins.names(family):
                print(f"  {name:<20} {plugins.describe(family, name).summary}")
        return 0
    print("\n".join(_lines(plugins.describe(*_find(arguments.name)))))
    return 0


def _find(name: str) -> tuple[str, str]:
    family, slash, rest = name.partition("/")
    if slash:
        return family, rest
    homes = [family for family in plugins.FAMILIES if name in plugins.names(family)]
    if not homes:
        known = ", ".join(f"{family}/{plugin}" for family in plugins.FAMILIES for plugin in plugins.names(family))
        raise ConfigurationError(f"there is no plugin `{name}`", hint=f"there are {known}")
    return homes[0], name


def _lines(card: PluginCard) -> list[str]:
    lines = [f"{card.family}/{card.name}", "", card.text, "", "Parameters:"]
    for parameter in card.parameters:
        default = "must be given" if parameter.default is None else f"default {parameter.default}"
        unit = f", {parameter.unit}" if parameter.unit else ""
        lines.append(f"  {parameter.name}: {parameter.type}{unit}; {default}")
    return lines
