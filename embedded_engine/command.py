"""`headrace model pull | list | show`."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from embedded_engine.errors import EngineError
from embedded_engine.hub import Hub
from embedded_engine.known_models import DEFAULT_MODEL, KNOWN_MODELS
from embedded_engine.models import ModelFile, default_model_dir, find_model, list_models
from embedded_engine.pull import pull_model

__all__ = ["main"]

_MEGABYTE = 1_000_000
_PUBLIC: Mapping[str, str] = {}
_BAR_CELLS = 40


def main(argv: Sequence[str], *, model_dir: Path | None = None, hub: Mapping[str, str] = _PUBLIC) -> int:
    """Pull, list or show models.

    Args:
        argv: The arguments after `headrace model`.
        model_dir: The model cache where `--dir` does not name one; None: `default_model_dir()`.
        hub: The hub's "url" and the "token" to show it, where they are not the public hub's and none.

    Returns:
        0, or 1 with a sentence on standard error.
    """
    arguments = _parser(model_dir or default_model_dir()).parse_args(argv or ["--help"])
    try:
        match arguments.command:
            case "pull":
                _print_model(pull_model(arguments.model, arguments.dir, say=_say, progress=_progress, hub=Hub(**hub)))
            case "list":
                _print_list(arguments.dir)
            case "show":
                _print_model(find_model(arguments.model, arguments.dir))
    except EngineError as error:
        print(f"headrace model: {error}", file=sys.stderr)
        return 1
    return 0


def _parser(model_dir: Path) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="headrace model", description="Models of the embedded engine.")
    commands = parser.add_subparsers(dest="command", required=True)
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--dir", type=Path, default=model_dir, help="the model cache (default: %(default)s)")
    which = argparse.ArgumentParser(add_help=False)
    which.add_argument(
        "model", nargs="?", default=DEFAULT_MODEL, help="a name, hf:org/repo/file.gguf or org/repo:quantisation"
    )
    commands.add_parser("pull", parents=[where, which], help="get a model into the cache")
    commands.add_parser("list", parents=[where], help="what is in the cache, and what could be")
    commands.add_parser("show", parents=[where, which], help="where a model is and came from")
    return parser


def _print_list(model_dir: Path) -> None:
    pulled = list_models(model_dir)
    for model in pulled:
        print(f"{model.name:40} {model.size_bytes / _MEGABYTE:8.1f} MB  {model.licence or '-'}")
    for name in KNOWN_MODELS.keys() - {model.name for model in pulled}:
        print(f"{name:40} not pulled   {KNOWN_MODELS[name].licence}")


def _print_model(model: ModelFile) -> None:
    print(f"name          {model.name}")
    print(f"path          {model.path}")
    print(f"source        {model.source}")
    print(f"sha256        {model.sha256 or 'not recorded'}")
    print(f"licence       {model.licence or 'not recorded'}")
    print(f"quantisation  {model.quantisation or 'not recorded'}")
    print(f"size          {model.size_bytes / _MEGABYTE:.1f} MB")


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def _progress(done_bytes: int, total_bytes: int | None) -> None:
    if total_bytes is None:
        print(f"\r{done_bytes / _MEGABYTE:8.1f} MB", end="", file=sys.stderr)
        return
    cells = _BAR_CELLS * done_bytes // total_bytes
    bar = "#" * cells + "-" * (_BAR_CELLS - cells)
    end = "\n" if done_bytes == total_bytes else ""
    print(
        f"\r{bar} {done_bytes / _MEGABYTE:.1f}/{total_bytes / _MEGABYTE:.1f} MB", end=end, file=sys.stderr, flush=True
    )
