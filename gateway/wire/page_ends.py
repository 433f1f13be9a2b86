"""How the lists of both APIs say which part of all they are."""

from collections.abc import Sequence


def page_ends(ids: Sequence[str]) -> tuple[str, str] | tuple[None, None]:
    """``first_id`` and ``last_id`` of a page with these ids, for whoever asks for the next one; ``None`` of none."""
    return (ids[0], ids[-1]) if ids else (None, None)
