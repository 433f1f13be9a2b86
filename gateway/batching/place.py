"""Where the files and batches of a gateway lie."""

from pathlib import Path

from gateway.settings import Settings

DATABASE_FILE = "batches.sqlite3"


def batches_place(settings: Settings) -> Path | str:
    """A file of this machine, or the ledger's server where it has one."""
    if settings.ledger_url is not None:
        return settings.ledger_url.get_secret_value()
    return settings.state_dir / DATABASE_FILE


def may_have_batches(settings: Settings) -> bool:
    """Whether somebody has ever left a file there, as far as can be known without asking a server."""
    place = batches_place(settings)
    return settings.batches and (isinstance(place, str) or place.exists())
