"""A provider's usage export: which of its columns say what, read by day and model.

The columns of OpenAI's export of completions are those of its usage API
(https://platform.openai.com/docs/api-reference/usage/completions): ``input_tokens`` has the cached ones in it. Those of
Anthropic's console keep input apart by how it met the cache, and have no cost.
"""

import csv
import re
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from gateway.errors import ConfigurationError

_SNAPSHOT = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest)$")


class Columns(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The names of columns. Of several for one figure the sum counts; what has none is not compared.

    ``day`` is a date, a moment, or seconds since the epoch.
    """

    day: str
    model: str
    requests: tuple[str, ...] = ()
    prompt_tokens: tuple[str, ...] = ()
    cached_tokens: tuple[str, ...] = ()
    output_tokens: tuple[str, ...] = ()
    cost_usd: tuple[str, ...] = ()


PROVIDERS: Mapping[str, Columns] = {
    "openai": Columns(
        day="start_time",
        model="model",
        requests=("num_model_requests",),
        prompt_tokens=("input_tokens",),
        cached_tokens=("input_cached_tokens",),
        output_tokens=("output_tokens",),
    ),
    "anthropic": Columns(
        day="usage_date_utc",
        model="model_version",
        prompt_tokens=(
            "usage_input_tokens_no_cache",
            "usage_input_tokens_cache_write_5m",
            "usage_input_tokens_cache_write_1h",
            "usage_input_tokens_cache_read",
        ),
        cached_tokens=("usage_input_tokens_cache_read",),
        output_tokens=("usage_output_tokens",),
    ),
}

FIGURES = ("requests", "prompt_tokens", "cached_tokens", "output_tokens", "cost_usd")

Used = dict[str, Decimal]
"""By figure, those of ``FIGURES`` that are known."""

Usage = dict[tuple[str, str], Used]
"""By day and model."""


def read_columns(name_or_file: str) -> Columns:
    """A provider's columns by its name, or those that a YAML file names.

    Raises:
        ConfigurationError: it is neither, or the file is wrong.
    """
    known = PROVIDERS.get(name_or_file)
    if known is not None:
        return known
    path = Path(name_or_file)
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
        if isinstance(tree, dict):
            tree = {
                name: [value] if name in FIGURES and isinstance(value, str) else value for name, value in tree.items()
            }
        return msgspec.convert(tree, Columns)
    except (OSError, UnicodeDecodeError) as error:
        hint = f"providers are {', '.join(PROVIDERS)}; or name a YAML file"
        raise ConfigurationError("there is no such provider, and no such file", file=str(path), hint=hint) from error
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise ConfigurationError(f"names no columns: {error}", file=str(path)) from None


def read_usage(path: Path, columns: Columns) -> Usage:
    """The export's figures by day and model; the date at the end of a model's name is left out.

    Raises:
        ConfigurationError: the file cannot be read, lacks a column, or has a value that is none.
    """
    found: Usage = defaultdict(lambda: defaultdict(Decimal))
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            wanted = (columns.day, columns.model, *(name for figure in FIGURES for name in getattr(columns, figure)))
            missing = [name for name in wanted if name not in (rows.fieldnames or ())]
            if missing:
                raise ConfigurationError(f"has no column `{missing[0]}`", file=str(path))
            for row in rows:
                _add(found, row, columns, where=f"line {rows.line_num}", file=str(path))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigurationError(f"cannot be read: {error}", file=str(path)) from error
    return {key: dict(used) for key, used in found.items()}


def model_name(name: str) -> str:
    """A model's name without the date of its snapshot."""
    return _SNAPSHOT.sub("", name.strip())


def _add(found: Usage, row: Mapping[str, Any], columns: Columns, *, where: str, file: str) -> None:
    if not (row[columns.day] or "").strip() or not (row[columns.model] or "").strip():
        return  # a day without requests, or a total
    try:
        used = found[_day(row[columns.day]), model_name(row[columns.model])]
        for figure in FIGURES:
            for name in getattr(columns, figure):
                used[figure] += _number(row[name])
    except (ValueError, InvalidOperation, OverflowError) as error:
        raise ConfigurationError("has a value that is no number or no day", file=file, where=where) from error


def _number(text: str | None) -> Decimal:
    number = Decimal((text or "0").replace(",", "").replace("$", "").strip() or "0")
    if not number.is_finite():
        raise ValueError("not a number")
    return number


def _day(text: str) -> str:
    text = text.strip()
    if text.replace(".", "", 1).isdigit():
        return datetime.fromtimestamp(float(text), UTC).date().isoformat()
    moment = datetime.fromisoformat(text)
    return (moment.astimezone(UTC) if moment.tzinfo else moment).date().isoformat()
