"""The ``headrace`` command. Each subcommand is a module of ``gateway.commands``, or an entry point of its own."""

import argparse
import importlib
import importlib.metadata
import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint
from types import ModuleType

from gateway.errors import ConfigurationError
from gateway.process.garbage import no_garbage

_COMMANDS = {
    "serve": "run the gateway",
    "check": "check a policy file",
    "explain": "show what a policy would do with a request, and why",
    "forecast": "measure how well answer lengths are forecast",
    "report": "show what requests and tasks cost, took and came to",
    "advise": "tell where time and money go, and what would help",
    "export": "write the ledger's requests as a trace for replay",
    "prices": "show which price holds where, or fetch a newer price list",
    "replay": "play a trace through a policy on simulated engines",
    "plugins": "list the plugins, or describe one",
}

_ENTRY_POINTS = "headrace.commands"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code: 0 fine, 1 wrong configuration, 2 wrong usage."""
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    outside = {entry.name: entry for entry in importlib.metadata.entry_points(group=_ENTRY_POINTS)}
    try:
        if arguments and arguments[0] in outside:
            from gateway.settings import read_settings  # noqa: PLC0415  # others load it below

            settings = read_settings()
            return int(outside[arguments[0]].load()(arguments[1:], model_dir=settings.model_dir, hub=settings.hub()))
        with no_garbage():  # what is loaded here stays, and looking through it takes an eighth of the time
            parser = _parser(outside, wanted=arguments[0])
        parsed = parser.parse_args(arguments)
        code = int(_module(parsed.command).run(parsed))
        sys.stdout.flush()
    except BrokenPipeError:  # `headrace plugins | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ConfigurationError as error:
        for one in error.all:
            print(f"headrace: {one}", file=sys.stderr)
        return 1
    return code


def _parser(outside: Mapping[str, EntryPoint], *, wanted: str) -> argparse.ArgumentParser:
    """All commands by name; of the one that is wanted its options too, for which it has to be imported."""
    parser = argparse.ArgumentParser(prog="headrace", description="A serving gateway for language models.")
    parser.add_argument("--version", action="version", version=f"headrace {importlib.metadata.version('headrace')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in _COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        if name == wanted:
            _module(name).add_arguments(command)
    for name, entry in outside.items():
        commands.add_parser(name, help=_summary(entry) if wanted in {"-h", "--help"} else None)
    return parser


def _summary(entry: EntryPoint) -> str:
    """What the command's own function says that it does, which is only found by importing it."""
    line = (inspect.getdoc(entry.load()) or "").partition("\n")[0].rstrip(".")
    return line[:1].lower() + line[1:]


def _module(command: str) -> ModuleType:
    return importlib.import_module(f"gateway.commands.{command}")


if __name__ == "__main__":
    sys.exit(main())
