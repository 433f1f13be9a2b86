"""Where the ledger is kept: SQLite's file in the state directory, or a PostgreSQL server."""

from pathlib import Path
from urllib.parse import urlsplit

from gateway.settings import Settings

LEDGER_FILE = "ledger.sqlite3"

_SERVERS = ("postgres://", "postgresql://", "postgresql+asyncpg://")


def ledger_place(settings: Settings) -> Path | str:
    """As the operator says: the address of a server, else the file."""
    if settings.ledger_url is not None:
        return settings.ledger_url.get_secret_value()
    return settings.state_dir / LEDGER_FILE


def read_place(text: str) -> Path | str:
    """What somebody writes on a command line: an address, or the path of a file."""
    return text if text.startswith(_SERVERS) else Path(text)


def name_of(place: Path | str) -> str:
    """What people are told of it: the path, or the address without user and password."""
    return str(place) if isinstance(place, Path) else f"postgresql://{urlsplit(place).netloc.rpartition('@')[2]}"
