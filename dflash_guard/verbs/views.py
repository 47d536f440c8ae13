"""Data sets as SQL views: `samples`, `facts`, `failures` and `profile`, in a DuckDB that can reach nothing else."""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import astuple, fields, replace
from pathlib import Path
from typing import Self

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq

from dflash_guard.errors import GuardError, JudgeError, UsageError
from dflash_guard.facts.rows import RowStream
from dflash_guard.facts.scan import limit_memory
from dflash_guard.facts.view import MEMORY
from dflash_guard.profile.model import Figures, Profile
from dflash_guard.verbs.autopsy import verdict_of
from dflash_guard.verbs.opening import Opened, Reading, open_data
from dflash_guard.verbs.profile import profile_opened
from dflash_guard.verdict.failures import FAILURES

__all__ = ["MAIN", "VIEWS", "Views"]

MAIN = "main"
VIEWS = ("samples", "facts", "failures", "profile")


class Views:
    """Data sets opened to SQL; a view is made when a query first names it.

    Args:
        sets: DATA by alias. The first one's views stand without an alias too.
        reading: How all of them are read.
        allow_files: Whether a query may read and write files.

    Raises:
        GuardError: A data set can't be opened; see `open_data`.
    """

    def __init__(self, sets: Mapping[str, Sequence[str]], reading: Reading, *, allow_files: bool = False) -> None:
        self._stack = ExitStack()
        self._reading = reading
        self._made: set[tuple[str, str]] = set()
        self._kept: list[object] = []
        try:
            scratch = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="dflash-guard-"))
            self._scratch = Path(scratch)
            self._opened: dict[str, Opened] = {}
            for alias, data in sets.items():
                out = None if reading.out is None else Path(reading.out) / (alias if len(sets) > 1 else "")
                self._opened[alias] = self._stack.enter_context(open_data(data, replace(reading, out=out)))
            self.connection = self._stack.enter_context(self._connect(allow_files=allow_files))
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def aliases(self) -> list[str]:
        """Of the data sets, in order."""
        return list(self._opened)

    def _connect(self, *, allow_files: bool) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(config={"threads": self._reading.jobs or os.cpu_count() or 1})
        connection.execute("SET temp_directory = ?", [str(self._scratch / "spilled")])
        limit_memory(connection, self._reading.memory_limit or MEMORY)
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET autoinstall_known_extensions = false")
        for alias in self._opened:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_name(alias)}")
        if not allow_files:
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
        return connection

    def query(self, text: str) -> Iterator[pa.RecordBatchReader]:
        """Run each statement of a text, and hand out its result, to be read before the next is asked for.

        Raises:
            UsageError: The SQL is wrong, or does what it may not.
            GuardError: A view that it names can't be made.
        """
        self.prepare(text)
        try:
            for statement in self.connection.extract_statements(text):
                result = self.connection.sql(statement.query)
                if result is not None:
                    yield result.to_arrow_reader(10_000)
        except duckdb.Error as error:
            raise self._wrong(error) from error

    def _wrong(self, error: duckdb.Error) -> GuardError:
        said = " ".join(str(error).split("\n\n")[0].split())
        if isinstance(error, duckdb.PermissionException):
            return UsageError(f"a query may not do this: {said}.", hint="--allow-files lets it read and write files.")
        if isinstance(error, duckdb.OutOfMemoryException | duckdb.IOException):
            return JudgeError(f"the query could not be run: {said}.", hint="ask for less, or raise --memory-limit.")
        first = self.aliases[0]
        views = ", ".join(VIEWS) + (f", and the same of {', '.join(self.aliases)}" if len(self.aliases) > 1 else "")
        return UsageError(f"the SQL is wrong: {said}", hint=f"views: {views}; `DESCRIBE {first}.facts` lists columns.")

    def prepare(self, text: str) -> None:
        """Make the views that a text names."""
        words = {word.lower() for word in re.findall(r"\w+", text)}
        for alias, opened in self._opened.items():
            for view in VIEWS:
                if view in words and (alias, view) not in self._made:
                    self._make(alias, view, opened)
                    self._made.add((alias, view))

    def _make(self, alias: str, view: str, opened: Opened) -> None:
        source = getattr(self, f"_{view}")(opened)
        self._kept.append(source)
        stored = f"{view} of {alias}"
        self.connection.register(stored, source)
        query = source.query(_name(stored)) if isinstance(source, RowStream) else f"FROM {_name(stored)}"
        places = [f"{_name(alias)}.{view}"] + ([f"main.{view}"] if alias == self.aliases[0] and alias != MAIN else [])
        for place in places:
            # A registered object is temporary, and only temporary views may name one.
            self.connection.execute(f"CREATE OR REPLACE VIEW {place} AS {query}")

    @staticmethod
    def _samples(opened: Opened) -> RowStream:
        return RowStream(opened.listing.shards)

    @staticmethod
    def _facts(opened: Opened) -> ds.Dataset | pa.Table:
        named = [(path, name) for path, name in zip(opened.scan.facts, opened.shard_names, strict=True) if path]
        if not named:
            return pa.table({"shard": pa.array([], pa.string()), "row": pa.array([], pa.int64())})
        schema = pq.read_schema(named[0][0]).remove_metadata()
        local, parquet = pyarrow.fs.LocalFileSystem(), ds.ParquetFileFormat()
        files = [
            parquet.make_fragment(path, local, partition_expression=ds.field("shard") == name) for path, name in named
        ]
        return ds.FileSystemDataset(files, schema.insert(0, pa.field("shard", pa.string())), parquet, local)

    def _failures(self, opened: Opened) -> ds.Dataset | pa.Table:
        verdict = self._stack.enter_context(verdict_of(opened, self._reading))
        source = verdict.found.source
        return source if isinstance(source, pa.Table) else ds.dataset(source, schema=FAILURES, format="parquet")

    @staticmethod
    def _profile(opened: Opened) -> pa.Table:
        return _profile_table(profile_opened(opened))


def _profile_table(profile: Profile) -> pa.Table:
    """A profile in long form: one row a fact of each group."""
    names = [field.name for field in fields(Figures)]
    rows = []
    for level, group in profile.groups():
        for fact, figures in group.facts.items():
            row = {"level": level, "name": group.name, "rows": group.rows, "share": group.share, "fact": fact}
            rows.append(row | dict(zip(names, astuple(figures), strict=True)))
    numbers = [(name, pa.int64() if name in {"count", "nulls"} else pa.float64()) for name in names]
    head = [("level", pa.string()), ("name", pa.string()), ("rows", pa.int64()), ("share", pa.float64())]
    return pa.Table.from_pylist(rows, schema=pa.schema([*head, ("fact", pa.string()), *numbers]))


def _name(text: str) -> str:
    quoted = text.replace('"', '""')
    return f'"{quoted}"'
