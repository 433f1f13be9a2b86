"""What a replay tells: flat keys for programs, a table for people."""

from collections.abc import Mapping

from gateway.replay.figures import Figure

Told = dict[str, float | int | str | None]


def keys_of(figures: Mapping[str, Figure], *, prefix: str = "") -> Told:
    """``name`` for each figure; ``name_low`` and ``name_high`` too, where it has an interval."""
    told: Told = {}
    for name, figure in figures.items():
        told[prefix + name] = figure.value
        if figure.low is not None:
            told[f"{prefix}{name}_low"] = figure.low
            told[f"{prefix}{name}_high"] = figure.high
    return told


def table(columns: Mapping[str, Mapping[str, Figure]]) -> list[str]:
    """The figures side by side, each column under its name."""
    titles = ["", *columns]
    names = next(iter(columns.values()))
    rows = [[name, *(in_words(column[name]) for column in columns.values())] for name in names]
    widths = [max(len(row[at]) for row in (titles, *rows)) for at in range(len(titles))]
    return [
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (titles, *rows)
    ]


def in_words(figure: Figure) -> str:
    """The value and its interval; a dash where nothing is known."""
    if figure.value is None:
        return "-"
    if figure.low is None or figure.high is None:
        return _short(figure.value)
    return f"{_short(figure.value)} ({_short(figure.low)} to {_short(figure.high)})"


def _short(number: float) -> str:
    return f"{number:.4g}" if abs(number) < 10_000 else f"{number:,.0f}"  # noqa: PLR2004  # more digits than people read
