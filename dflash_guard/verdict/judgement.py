"""From facts files to rule results: one DuckDB connection over the facts of a whole data set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from dflash_guard.contract.model import Contract, RuleSetting
from dflash_guard.contract.rows import details, failing_sql, judge_rows, prepare
from dflash_guard.errors import JudgeError
from dflash_guard.facts.scan import Scan
from dflash_guard.facts.sql import sql
from dflash_guard.facts.view import open_facts
from dflash_guard.profile.measure import measure_distribution, prepare_profile
from dflash_guard.profile.model import Distribution
from dflash_guard.verdict.failures import FAILURES, REDACTED

__all__ = ["Judgement", "RowCounts"]


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Rows by fate.

    Attributes:
        failing: Failing rows by rule, for every row rule that was judged.
        failed: Rows that fail an error rule beyond its tolerance.
        warned: Rows that fail only rules of level warn.
        quarantined: Rows that fail an error rule, within tolerance or not.
    """

    failing: Mapping[str, int]
    failed: int
    warned: int
    quarantined: int


class Judgement:
    """The facts of a data set, opened to SQL and to rules.

    Args:
        scan: What the scan left behind.
        contract: The effective contract.
        scratch: A folder for what does not fit in memory.
        jobs: Threads.
        memory_limit: DuckDB's, such as `1GiB`.
    """

    def __init__(
        self, scan: Scan, contract: Contract, *, scratch: Path, jobs: int | None = None, memory_limit: str | None = None
    ) -> None:
        self.contract = contract
        self.connection = open_facts(scan, scratch=scratch, jobs=jobs, memory_limit=memory_limit)
        self.has_rows = any(scan.facts)
        self._upstream = self._prompts = False
        self._ordered = True  # whether rows come out of `judged` in the order of the data
        if self.has_rows:
            self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def _read(self) -> None:
        connection = self.connection
        key = (
            "CASE WHEN id IS NOT NULL THEN concat(id, ' turn ', turn) END"
            if self.contract.stage == "tokenized"
            else "id"
        )
        repeated = self._find_earlier("earlier_ids", key)
        if self.contract.stage == "prompts":
            repeated |= self._find_earlier("earlier_prompts", "context_digest")
        else:
            connection.execute("CREATE TEMP TABLE earlier_prompts (shard INTEGER, row BIGINT, place VARCHAR)")
        # A join loses the order of rows; most data sets repeat nothing, and need none.
        connection.execute(_sql("facts.sql" if repeated else "facts_unjoined.sql"))
        self._ordered = not repeated

    def _find_earlier(self, table: str, key: str) -> bool:
        """Make a table of the rows whose key stands on an earlier row, with that row's place; say if there are any."""
        self.connection.execute(_sql("earlier.sql").replace("earlier_rows", table).replace("key_of_row", key))
        return bool(self._one(f"SELECT count(*) FROM {table}"))  # noqa: S608 - one of ours

    def compare_with(self, upstream: Scan, *, prompts: Path | None = None) -> None:
        """Let cross-stage rules be judged against an upstream data set.

        Args:
            upstream: It, scanned as completions.
            prompts: A Parquet file that says which prompt each token row has: id, turn, prompt_trail, tools_digest,
                user_turns, ended_early.
        """
        files = [path for path in upstream.facts if path]
        if files and self.has_rows:
            self.connection.execute("SET VARIABLE upstream_files = ?", [files])
            self.connection.execute(_sql("upstream.sql"))
            if prompts is not None:
                self.connection.read_parquet(str(prompts)).create_view("prompts_here")
            self._upstream, self._prompts = True, prompts is not None
            self._ordered = False

    def upstream_values(self, column: str) -> list[str]:
        """The distinct values of a column of upstream's facts, nulls left out."""
        if not self._upstream:
            return []
        query = f"SELECT DISTINCT {column} FROM read_parquet(getvariable('upstream_files')) WHERE {column} IS NOT NULL"  # noqa: S608
        return [str(value) for (value,) in self.connection.execute(query).fetchall()]

    def judge(self, *, generator: Mapping[str, Any] | None = None) -> RowCounts:
        """Run the row rules.

        Args:
            generator: Who made the rows, by the data set's manifest.
        """
        if not self.has_rows:
            return RowCounts({}, 0, 0, 0)
        prepare(self.connection, self.contract, generator=generator, upstream=self._upstream, prompts=self._prompts)
        failing = judge_rows(self.connection, self.contract)
        conditions = self._conditions([name for name, count in failing.items() if count])
        rows = self.rows
        beyond = [name for name in conditions if failing[name] > self._setting(name).tolerance * rows]
        errors = [name for name in conditions if self._setting(name).level == "error"]
        failed, quarantined, warned = self._count(
            _any([conditions[name] for name in beyond if name in errors]),
            _any([conditions[name] for name in errors]),
            _any([conditions[name] for name in conditions if name not in errors]),
        )
        return RowCounts(failing, failed, warned, quarantined)

    @property
    def rows(self) -> int:
        """Rows that have facts."""
        return self._one("SELECT count(*) FROM raw_facts") if self.has_rows else 0

    @property
    def ids(self) -> int:
        """Distinct ids."""
        return self._one("SELECT count(DISTINCT id) FROM raw_facts") if self.has_rows else 0

    def measure_whole(self) -> Distribution | None:
        """The figures that distribution rules bound; None where there is no row."""
        if not self.has_rows:
            return None
        prepare_profile(self.connection, self.contract.stage)
        return measure_distribution(self.connection)

    def _setting(self, name: str) -> RuleSetting:
        return self.contract.rules[name]

    def _one(self, query: str) -> int:
        return int(self.connection.execute(query).fetchall()[0][0])

    def _count(self, failed: str, quarantined: str, warned: str) -> tuple[int, int, int]:
        query = (
            f"SELECT count(*) FILTER ({failed}), count(*) FILTER ({quarantined}), "  # noqa: S608 - names of rules
            f"count(*) FILTER ({warned} AND NOT ({quarantined})) FROM judged"
        )
        found = self.connection.execute(query).fetchall()[0]
        return int(found[0]), int(found[1]), int(found[2])

    def _conditions(self, names: Sequence[str]) -> dict[str, str]:
        types = {d[0]: str(d[1]) for d in self.connection.sql("SELECT * FROM judged LIMIT 0").description}
        return {name: failing_sql(name, types[name]) for name in names}

    def write_failures(self, path: Path, counts: RowCounts, shard_failures: pa.Table, *, redact: bool = False) -> None:
        """Write every failing row, and what is wrong with whole shards, as Parquet.

        Raises:
            JudgeError: SQL lists other rows than pandera counted.
        """
        failing = [name for name, count in counts.failing.items() if count]
        conditions = self._conditions(failing) if failing else {}
        self.connection.register("shard_failures", shard_failures)
        said = details(self.contract.stage)
        parts = ["SELECT *, 0 AS part, 0 AS shard_index FROM shard_failures"]
        parts += [
            f"SELECT '{name}', '{self._setting(name).level}', shard_name, row, line, id, ({said[name]}), "  # noqa: S608
            f"{part}, judged.shard FROM judged WHERE {condition}"
            for part, (name, condition) in enumerate(conditions.items(), 1)
        ]
        query = " UNION ALL ".join(parts)
        order = "" if self._ordered else " ORDER BY part, shard_index, row NULLS FIRST"
        shown = f"'{REDACTED}' AS detail" if redact else "detail"
        names = ", ".join(shown if name == "detail" else name for name in FAILURES.names)
        self.connection.execute(
            f"COPY (SELECT {names} FROM ({query}){order}) TO '{_quoted(path)}' (FORMAT parquet, COMPRESSION lz4)"  # noqa: S608
        )
        listed = dict(
            self.connection.execute(
                "SELECT rule, count(*) FROM read_parquet(?) WHERE row IS NOT NULL GROUP BY rule", [str(path)]
            ).fetchall()
        )
        if listed != {name: counts.failing[name] for name in failing}:
            message = "pandera and SQL do not agree on the failing rows."
            raise JudgeError(message, hint="this is a fault of dflash-guard; please report it.")


def _any(conditions: Sequence[str]) -> str:
    return " OR ".join(f"({each})" for each in conditions) or "FALSE"


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def _sql(name: str) -> str:
    return sql(name, "dflash_guard.verdict")
