"""`report`: one page about a data set, and Great Expectations' own pages."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dflash_guard.contract.expectations import compile_expectations, frame_of, not_judged
from dflash_guard.contract.gx_process import make_docs
from dflash_guard.errors import GateError, UsageError
from dflash_guard.profile.cost import Cost, cost_of
from dflash_guard.shards.writer import make_folder
from dflash_guard.verbs.autopsy import Examined, autopsy
from dflash_guard.verbs.opening import Reading
from dflash_guard.verdict.lineage import Node, trace

__all__ = ["Reported", "data_docs", "report"]


@dataclass(frozen=True, slots=True)
class Reported:
    """What a page is made of.

    Attributes:
        examined: Verdict, profile and autopsy.
        cost: Of the failing rows; None where no row could be read.
        lineage: Where the data comes from; None where nothing is on record.
    """

    examined: Examined
    cost: Cost | None
    lineage: Node | None


@contextmanager
def report(
    data: Sequence[str | Path], reading: Reading, *, tokenizer: str | None = None, specimens: int = 2
) -> Iterator[Reported]:
    """All that is known of a data set, for a page; arguments and errors are those of `autopsy`."""
    with autopsy(data, reading, tokenizer=tokenizer, specimens=specimens) as examined:
        opened, source = examined.opened, examined.verdict.found.source
        cost = None
        if opened.has_rows and isinstance(source, Path):
            cost = cost_of(opened.connection, opened.contract.stage, str(source))
        yield Reported(examined, cost, _lineage(examined))


def _lineage(examined: Examined) -> Node | None:
    """Where the data comes from; None where nothing is on record."""
    opened = examined.opened
    try:
        return trace(opened.data, stage=opened.contract.stage, out=opened.folder.path)
    except GateError:
        return None


def data_docs(examined: Examined, folder: str) -> None:
    """Build Great Expectations' Data Docs of a data set's distribution rules in a folder.

    Raises:
        UsageError: No distribution rule can be judged on it.
        JudgeError: The library did not build them.
    """
    contract = examined.opened.contract
    frame = frame_of(examined.profile.distribution, contract)
    judged = [each for each in compile_expectations(contract) if not_judged(each.rule, contract, frame) is None]
    if not judged:
        raise UsageError("--data-docs: no distribution rule can be judged on this data.", hint="leave the option out.")
    make_folder(Path(folder))
    make_docs(judged, frame, str(Path(folder).absolute()))
