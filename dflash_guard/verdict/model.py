"""What a judgement says: the verdict of one `check`, as data. Reports print it; they compute nothing."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from dflash_guard.contract.model import Contract
from dflash_guard.errors import ExitCode

if TYPE_CHECKING:  # a gate reads verdicts without what their rows are made of
    import pyarrow as pa

    from dflash_guard.shards.model import LeftOut, Seal
    from dflash_guard.verdict.failures import Failures

__all__ = ["Counts", "Parent", "RuleResult", "Verdict"]


@dataclass(frozen=True, slots=True)
class RuleResult:
    """One rule's outcome over the data set.

    Attributes:
        rule, level, tolerance, bound: As the contract set them.
        failing_rows: Rows (for a shard rule: shards) that failed it.
        share: failing_rows / rows; None where there are no rows.
        observed: The value that a distribution rule saw.
        failed: Whether it fails the data set at its level.
        skipped: Why it could not be judged, else None.
        message: For a distribution rule, what was seen, in words.
    """

    rule: str
    level: str
    failing_rows: int
    share: float | None
    tolerance: float
    bound: Mapping[str, Any]
    failed: bool
    observed: Any = None
    skipped: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows by fate. `quarantined_rows` failed an error rule, within its tolerance or not."""

    shards: int
    rows: int
    failed_rows: int
    warned_rows: int
    quarantined_rows: int


@dataclass(frozen=True, slots=True)
class Parent:
    """A data set that another was made from, or compared with, as it was then.

    Attributes:
        data: Absolute paths, as given.
        folder: Its guard folder.
        stage: The stage that its verdict is of; "" without a verdict.
        verdict: sha256 of its verdict file, of which a copy lies in `upstream/`; "" without a verdict.
        shards: The sha256 of its shards, in order.
    """

    data: tuple[str, ...]
    folder: str
    stage: str
    verdict: str
    shards: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its paths, for people."""
        return ", ".join(self.data)

    def as_json(self) -> dict[str, Any]:
        """As it stands in records."""
        return {**asdict(self), "data": list(self.data), "shards": list(self.shards)}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> "Parent":
        """Read it back.

        Raises:
            KeyError, TypeError: It is no such record.
        """
        return cls(
            tuple(map(str, said["data"])),
            str(said["folder"]),
            str(said["stage"]),
            str(said["verdict"]),
            tuple(map(str, said["shards"])),
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one data set at one stage.

    Attributes:
        result: `pass`, `fail`, or `error`.
        exit_code: The process exit status that goes with it.
        contract: The effective contract.
        counts, rules: What was judged, and how it came out.
        found: Every failing row, complete: `failures` reads them.
        seals: Every shard with its sha256, in order.
        left_out: Files of the folder that are no shards.
        data: DATA as given.
        folder: The guard folder that holds facts, failures and the verdict file; "" where nothing was written.
        facts: The facts file of each seal's shard, "" where it has none.
        started, ended: UTC.
        fail_on: The least level that fails the data set: `error` or `warn`.
        redacted: Whether sample text was kept out of failures and messages.
        upstream: The data sets that this one was compared with, or says it was made from.
        manifest: sha256 of the data set's manifest, "" without one.
    """

    result: Literal["pass", "fail", "error"]
    exit_code: ExitCode
    contract: Contract
    counts: Counts
    rules: tuple[RuleResult, ...]
    found: "Failures"
    seals: "tuple[Seal, ...]"
    left_out: "tuple[LeftOut, ...]"
    data: tuple[str, ...]
    folder: str
    facts: tuple[str, ...]
    started: datetime
    ended: datetime
    fail_on: str = "error"
    redacted: bool = False
    upstream: tuple[Parent, ...] = ()
    manifest: str = ""

    @property
    def passed(self) -> bool:
        """Whether the data passed (warnings allowed)."""
        return self.result == "pass"

    @property
    def failures(self) -> "pa.Table":
        """Every failing row, with rule, level, shard, row, line, sample_id and detail."""
        return self.found.table()
