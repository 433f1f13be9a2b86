"""Traces as Parquet files, a tenth of the size of their JSON: the one place that knows pyarrow, an extra."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from gateway.errors import ConfigurationError

_MAGIC = b"PAR1"


def is_parquet(path: Path) -> bool:
    """Whether the file says of itself that it is one.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def parquet_lines(path: Path) -> Iterator[bytes]:
    """Its rows as lines of JSON, without the columns that a row leaves empty.

    Raises:
        ConfigurationError: it is damaged, or pyarrow is not installed.
    """
    arrow, parquet = _libraries()
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    yield msgspec.json.encode({name: value for name, value in row.items() if value is not None}) + b"\n"
    except (arrow.ArrowException, OSError) as error:
        raise ConfigurationError(f"this is no Parquet file that can be read: {error}", file=str(path)) from error


class TraceFile:
    """A Parquet file under way; each ``write`` is a group of rows."""

    def __init__(self, arrow: Any, writer: Any, schema: Any) -> None:
        self._arrow, self._writer, self._schema = arrow, writer, schema

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Adds rows, each with all columns."""
        self._writer.write_table(self._arrow.Table.from_pylist(list(rows), schema=self._schema))


@contextmanager
def new_trace_file(path: Path) -> Iterator[TraceFile]:
    """A Parquet file with the columns of ``headrace export``.

    Raises:
        ConfigurationError: it cannot be written, or pyarrow is not installed.
    """
    arrow, parquet = _libraries()
    schema = arrow.schema(
        [
            ("timestamp", arrow.int64()),
            ("input_length", arrow.int64()),
            ("output_length", arrow.int64()),
            ("hash_ids", arrow.list_(arrow.int64())),
            ("model", arrow.string()),
            ("tenant", arrow.string()),
            ("route", arrow.string()),
            ("ttft_s", arrow.float64()),
            ("cost_usd", arrow.float64()),
        ]
    )
    try:
        with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
            yield TraceFile(arrow, writer, schema)
    except OSError as error:
        raise ConfigurationError(f"cannot be written: {error}", file=str(path)) from error


def _libraries() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"Parquet needs {error.name}", hint="pip install 'headrace[parquet]'") from error
