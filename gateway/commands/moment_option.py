"""Days and moments among a command's options."""

import argparse

from gateway.accounts.moments import read_moment


def moment_option(text: str) -> float:
    """Seconds since the epoch, for ``add_argument(type=...)``; without a zone, it is UTC.

    Raises:
        argparse.ArgumentTypeError: it is no day and no moment.
    """
    try:
        return read_moment(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a day or a moment, and is {text!r}") from None
