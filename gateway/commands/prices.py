"""``headrace prices policy.yaml`` shows which price holds where; ``headrace prices update`` fetches a newer list.

Nothing is ever fetched but by the second one.
"""

import argparse
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from gateway.commands.offline import read_world
from gateway.errors import ConfigurationError
from gateway.prices.price_book import PRICES_FILE, PriceBook
from gateway.prices.price_table import PricedModel, priced_models, table_lines
from gateway.settings import read_settings

_UPDATE = "update"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("policy", nargs="?", help="policy file; or `update`, to fetch a newer list")
    parser.add_argument("--providers", action="store_true", help="whose lists there are")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--source", help="of an update: an https address, a file, or `package` for the installed one")
    parser.add_argument("--to", type=Path, help="of an update: the file; by default in the state directory")


def run(arguments: argparse.Namespace) -> int:
    """Prints the table; 0 where all prices are known, 1 where some are not."""
    file = read_settings().state_dir / PRICES_FILE
    if arguments.policy == _UPDATE:
        return _update(arguments.source, arguments.to or file)
    book = PriceBook(file)
    if arguments.providers:
        print("\n".join(book.published.providers))
        return 0
    if arguments.policy is None:
        raise ConfigurationError("which policy file?", hint="headrace prices policy.yaml, or headrace prices update")
    _, world = read_world(Path(arguments.policy))
    models = list(priced_models(world, book))
    print(_as_json(models) if arguments.json else "\n".join(table_lines(models)))
    return 1 if any(model.unknown for model in models) else 0


def _update(source: str | None, file: Path) -> int:
    from gateway.prices.price_source import ADDRESS, fetch_prices  # noqa: PLC0415  # what only an update needs
    from gateway.prices.published import price_file_bytes  # noqa: PLC0415  # likewise

    made = fetch_prices(source or ADDRESS, made_on=datetime.now(UTC).date())
    new = file.with_name(f".{file.name}.new")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new.write_bytes(price_file_bytes(made))
        new.replace(file)
    except OSError as error:
        raise ConfigurationError(f"cannot be written: {error.strerror}", file=str(file)) from error
    print(f"{file}: the prices of {len(made.providers)} providers; a running gateway takes them with its next start")
    return 0


def _as_json(models: list[PricedModel]) -> str:
    rows = [
        {"backend": it.backend, "model": it.model, "price": msgspec.to_builtins(it.price), "from": it.origin}
        for it in models
    ]
    return msgspec.json.format(msgspec.json.encode(rows), indent=2).decode()
