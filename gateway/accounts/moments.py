"""Days and moments, as people and JSON write them. Everything is in UTC."""

from datetime import UTC, date, datetime

_EPOCH_DAY = date(1970, 1, 1).toordinal()


def moment(unix_s: float) -> str:
    """Seconds since the epoch as RFC 3339 writes them."""
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def day_of(days: int) -> str:
    """The date that so many days after the epoch is."""
    return date.fromordinal(_EPOCH_DAY + days).isoformat()


def read_moment(text: str) -> float:
    """A day or a moment as seconds since the epoch; without a zone it is UTC.

    Raises:
        ValueError: it is none.
    """
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
