"""How much tenants may leave here, and how much of the gateway batches may take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchBounds:
    """The operator's bounds; sizes in bytes, times in seconds.

    ``max_file_bytes`` is for one file, ``max_files`` and ``max_stored_bytes`` are for one tenant; ``kept_s`` is how
    long files and what is known of batches stay. ``max_lines`` are in one batch, ``max_line_bytes`` in one line; of one
    tenant ``max_batches`` may be under way. ``lines_at_once`` are in flight in one process. Of places that nobody else
    takes, batches take the ``share``. Who runs a batch says so every third of ``lease_s``. An upload may send nothing
    for ``silence_s``.
    """

    max_file_bytes: int
    max_files: int
    max_stored_bytes: int
    kept_s: float
    max_lines: int
    max_line_bytes: int
    max_batches: int
    lines_at_once: int
    share: float
    lease_s: float
    silence_s: float
