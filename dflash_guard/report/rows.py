"""Rows of a query as a table, CSV, JSON or Parquet."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any, BinaryIO, Literal, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from dflash_guard.report._cells import count, cut, inert, unformula
from dflash_guard.report._table import aligned
from dflash_guard.report.json import dumps, standard

__all__ = ["FORMATS", "RowsFormat", "pieces", "write_parquet"]

RowsFormat = Literal["table", "csv", "json", "parquet"]
FORMATS: tuple[RowsFormat, ...] = get_args(RowsFormat)
MOST = 200  # rows of a table
CELL = 80  # characters of a cell of a table


def pieces(rows: pa.RecordBatchReader, format: RowsFormat) -> Iterator[str]:  # noqa: A002
    """Rows as text, piece by piece.

    Args:
        rows: A query's result.
        format: `table` (the first 200 rows), `csv` (cells that a spreadsheet would take for a formula begin with an
            apostrophe) or `json` (one object a line).
    """
    match format:
        case "csv":
            yield from _csv(rows)
        case "json":
            yield from _json(rows)
        case _:
            yield from _table(rows)


def write_parquet(rows: pa.RecordBatchReader, sink: BinaryIO) -> None:
    """Rows as one Parquet file."""
    with pq.ParquetWriter(sink, rows.schema, compression="zstd") as writer:
        for batch in rows:
            writer.write_batch(batch)


def _table(rows: pa.RecordBatchReader) -> Iterator[str]:
    lines = [[inert(cut(name, CELL)) for name in rows.schema.names]]
    total = 0
    for batch in rows:
        total += batch.num_rows
        shown = batch.slice(0, max(0, MOST + 1 - len(lines))).to_pylist()
        lines += [[_cell(value) for value in row.values()] for row in shown]
    numbers = {i for i, field in enumerate(rows.schema) if _is_number(field.type)}
    for line in aligned(lines, numbers):
        yield line.rstrip() + "\n"
    shown = f", the first {MOST} shown; --format csv, json or parquet for all" if total > MOST else ""
    yield f"({count(total, 'row')}{shown})\n"


def _is_number(of: pa.DataType) -> bool:
    return bool(pa.types.is_integer(of) or pa.types.is_floating(of) or pa.types.is_decimal(of))


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.1f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = value if isinstance(value, str) else json.dumps(standard(value), ensure_ascii=False)
    return inert(cut(text.replace("\n", "↵"), CELL))


def _csv(rows: pa.RecordBatchReader) -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([unformula(name) for name in rows.schema.names])
    for batch in rows:
        for row in batch.to_pylist():
            writer.writerow([_csv_cell(value) for value in row.values()])
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue()


def _csv_cell(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    return unformula(value if isinstance(value, str) else json.dumps(standard(value), ensure_ascii=False))


def _json(rows: pa.RecordBatchReader) -> Iterator[str]:
    for batch in rows:
        for row in batch.to_pylist():
            yield dumps(row) + "\n"
