"""The facts of a whole data set, opened to SQL: one DuckDB connection with the view `raw_facts`."""

import os
from pathlib import Path

import duckdb

from dflash_guard.facts.scan import Scan, limit_memory
from dflash_guard.facts.sql import sql

__all__ = ["open_facts"]

MEMORY = "768MiB"  # beyond it the engine works on disk; a check needs the same memory for any number of rows


def open_facts(
    scan: Scan, *, scratch: Path, jobs: int | None = None, memory_limit: str | None = None
) -> duckdb.DuckDBPyConnection:
    """Open a connection with the macros of `json.sql` and, where any row has facts, the view `raw_facts`.

    Args:
        scan: What the scan left behind.
        scratch: A folder for what does not fit in memory.
        jobs: Threads; all cores by default.
        memory_limit: DuckDB's, such as `1GiB`.
    """
    connection = duckdb.connect(config={"threads": jobs or os.cpu_count() or 1})
    connection.execute("SET temp_directory = ?", [str(scratch)])
    limit_memory(connection, memory_limit or MEMORY)
    connection.execute(sql("json.sql"))
    found = [(path, i) for i, path in enumerate(scan.facts) if path]
    if found:
        connection.execute("SET VARIABLE facts_files = ?", [[path for path, _ in found]])
        connection.execute("SET VARIABLE file_shards = ?::INTEGER[]", [[i for _, i in found]])
        connection.execute("SET VARIABLE shard_names = ?", [[seal.shard.name for seal in scan.seals]])
        connection.execute(sql("view.sql"))
    return connection
