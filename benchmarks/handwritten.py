"""The hand-written DuckDB queries, as whole programs.

python -m benchmarks.handwritten prompts|tokenized FILE
"""

import sys
from pathlib import Path

import duckdb
import pyarrow as pa


def run(stage: str, path: str) -> list[tuple[object, ...]]:
    """Run the query of a stage over one file."""
    query = (Path(__file__).parent / f"handwritten_{stage}.sql").read_text(encoding="utf-8")
    connection = duckdb.connect()
    if stage == "prompts":
        return connection.execute(query, {"path": path}).fetchall()
    reader = pa.ipc.open_stream(path)
    connection.register("tokens", pa.RecordBatchReader.from_batches(reader.schema, reader))
    return connection.execute(query).fetchall()


if __name__ == "__main__":
    print(run(sys.argv[1], sys.argv[2]))
