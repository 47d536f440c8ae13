"""The failing rows of a verdict: complete in a Parquet file, and the first of each rule for a report."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["FAILURES", "REDACTED", "Failures"]

REDACTED = "(redacted)"

FAILURES = pa.schema(
    [
        ("rule", pa.string()),
        ("level", pa.string()),
        ("shard", pa.string()),  # null: the whole data set
        ("row", pa.int64()),  # null: the whole shard
        ("line", pa.int64()),
        ("sample_id", pa.string()),
        ("detail", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Failures:
    """Failing rows, in a file or in memory; they may be many, so a report reads only those that it shows.

    Attributes:
        source: A Parquet file with the columns of FAILURES, or such a table.
        redacted: Whether details are kept out of what is read.
    """

    source: Path | pa.Table
    redacted: bool = False

    def table(self) -> pa.Table:
        """All of them."""
        return self._shown(
            self.source if isinstance(self.source, pa.Table) else pq.read_table(self.source, schema=FAILURES)
        )

    def pieces(self) -> Iterator[pa.Table]:
        """All of them, piece by piece."""
        if isinstance(self.source, pa.Table):
            yield self._shown(self.source)
            return
        with pq.ParquetFile(self.source) as file:
            for group in range(file.num_row_groups):
                yield self._shown(file.read_row_group(group, use_threads=False))

    def _shown(self, rows: pa.Table) -> pa.Table:
        if not self.redacted:
            return rows
        hidden = pa.array([REDACTED], pa.string()).take(pa.array([0] * rows.num_rows, pa.int64()))
        return rows.set_column(rows.schema.get_field_index("detail"), rows.schema.field("detail"), hidden)

    def first(self, most: int) -> pa.Table:
        """The first `most` of each rule, in the order of the data."""
        found: dict[str, int] = {}
        parts = [part for piece in self._promising(found, most) for part in _first(piece, found, most)]
        return self._shown(pa.concat_tables(parts)) if parts else FAILURES.empty_table()

    def _promising(self, found: Mapping[str, int], most: int) -> Iterator[pa.Table]:
        """Pieces that hold a rule of which there are not enough yet."""
        if isinstance(self.source, pa.Table):
            yield self.source
            return
        with pq.ParquetFile(self.source) as file:
            for group in range(file.num_row_groups):
                rules = pc.unique(file.read_row_group(group, columns=["rule"], use_threads=False)["rule"]).to_pylist()
                if any(found.get(rule, 0) < most for rule in rules):
                    yield file.read_row_group(group, use_threads=False)


def _first(piece: pa.Table, found: dict[str, int], most: int) -> Iterator[pa.Table]:
    places: list[int] = []
    for rule in pc.unique(piece["rule"]).to_pylist():
        here = pc.indices_nonzero(pc.equal(piece["rule"], rule)).slice(0, max(0, most - found.get(rule, 0))).to_pylist()
        found[rule] = found.get(rule, 0) + len(here)
        places += here
    if places:
        yield piece.take(pa.array(sorted(places), pa.int64()))
