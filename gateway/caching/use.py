"""What a route's cache had to do with a request."""

from enum import StrEnum


class CacheUse(StrEnum):
    """A metric label, so it stays small. ``BYPASS``: no answer to it is kept, or its client wants a new one."""

    HIT = "hit"
    MISS = "miss"
    BYPASS = "bypass"
