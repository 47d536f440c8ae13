"""Great Expectations, behind one door: suites out of expectations, and a process that judges them.

Importing the library takes seconds, so it happens in a process of its own while shards are scanned. That process
reads one request a line, answers each with one line, and ends when its input does.
"""

import gc
import json
import os
import select
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Any, TextIO

from dflash_guard.contract.expectations import Expectation

__all__ = ["build_docs", "build_docs_of", "print_suite_of", "request_of", "serve", "suite_of", "validate"]

SUITE = "dflash-guard"
IDLE_SECONDS = 30  # after an answer without a new request; before the first one a scan may take any time


def request_of(expectations: Sequence[Expectation], frame: Mapping[str, float | None]) -> str:
    """A request as one line."""
    return json.dumps({"expectations": [asdict(each) for each in expectations], "frame": dict(frame)}) + "\n"


def serve() -> None:
    """Answer requests on standard input until it ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever the library prints is no answer
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    os.nice(19)  # the scan goes first
    _import_lightly()

    waiting = None
    while select.select([sys.stdin], [], [], waiting)[0]:
        line = sys.stdin.readline()
        if not line:
            return
        _answer(line, answers)
        waiting = IDLE_SECONDS


# Libraries that Great Expectations imports for what is not done here; together they are half of its import.
_UNUSED = frozenset({"altair", "boto3", "posthog", "scipy.stats"})


class _Lazily:
    """Finds a module so that its code runs when something is first taken from it."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _UNUSED:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def _import_lightly() -> None:
    """Import Great Expectations in half the time that it takes by itself."""
    sys.meta_path.insert(0, _Lazily)
    gc.disable()  # thousands of classes are made, and none is garbage
    import great_expectations as _  # noqa: F401 - the reason for this process

    gc.enable()


def _read(line: str) -> tuple[list[Expectation], dict[str, float | None]]:
    request = json.loads(line)
    return [_expectation(each) for each in request["expectations"]], request["frame"]


def build_docs_of(line: str, folder: str) -> None:
    """Build Data Docs of a request, in a process that does nothing else."""
    _import_lightly()
    build_docs(*_read(line), folder)


def _answer(line: str, answers: TextIO) -> None:
    try:
        answer: dict[str, Any] = {"results": validate(*_read(line))}
    except Exception as error:  # noqa: BLE001 - told by whoever asked
        answer = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _expectation(said: Mapping[str, Any]) -> Expectation:
    only_if = said["only_if"]
    return Expectation(**{**said, "only_if": None if only_if is None else (only_if[0], only_if[1])})


def suite_of(expectations: Sequence[Expectation], name: str = SUITE) -> Any:
    """An ExpectationSuite of expectations; each has its rule in `meta`."""
    import great_expectations as gx
    from great_expectations.expectations.row_conditions import Column

    suite = gx.ExpectationSuite(name)
    for each in expectations:
        bounds = {"min_value": each.least, "max_value": each.most}
        options: dict[str, Any] = {key: value for key, value in bounds.items() if value is not None}
        if each.only_if is not None:
            options["row_condition"] = Column(each.only_if[0]) >= each.only_if[1]
        suite.add_expectation(
            gx.expectations.ExpectColumnValuesToBeBetween(
                column=each.column,
                severity="warning" if each.level == "warn" else "critical",
                meta={"rule": each.rule},
                **options,
            )
        )
    return suite


def print_suite_of(line: str, name: str) -> None:
    """Print a suite of a request's expectations as JSON, in a process that does nothing else."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    _import_lightly()
    _context()
    json.dump(suite_of(_read(line)[0], name).to_json_dict(), answer)
    answer.flush()


def validate(expectations: Sequence[Expectation], frame: Mapping[str, float | None]) -> list[bool]:
    """Run expectations on a one-row frame in an ephemeral context.

    Args:
        expectations: What to judge, on columns that are not null.
        frame: The row.

    Returns:
        Whether each expectation holds, in order.

    Raises:
        ValueError: The library did not judge one of them.
    """
    batch = _batch_definition(_context()).get_batch(batch_parameters=_parameters(frame))
    # A warning that fails makes `success` of the whole false, and an aborted one may leave it true: one by one.
    results = batch.validate(suite_of(expectations)).results
    if len(results) != len(expectations):
        raise ValueError(f"{len(results)} results for {len(expectations)} expectations")
    by_key = {(r.expectation_config.meta["rule"], r.expectation_config.kwargs["column"]): r for r in results}
    return [_held(by_key[each.rule, each.column], each) for each in expectations]


def _context() -> Any:
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return context


def _batch_definition(context: Any) -> Any:
    asset = context.data_sources.add_pandas("profile").add_dataframe_asset("distribution")
    return asset.add_batch_definition_whole_dataframe("whole")


def _parameters(frame: Mapping[str, float | None]) -> dict[str, Any]:
    import pandas as pd

    row = {key: [value if value is None else float(value)] for key, value in frame.items()}
    return {"dataframe": pd.DataFrame(row, dtype=float)}


def _held(result: Any, expectation: Expectation) -> bool:
    raised = result.exception_info
    if raised.get("raised_exception", True):
        raise ValueError(f"the expectation of {expectation.rule} raised")
    found = result.result
    if found.get("missing_count") or (expectation.only_if is None and found.get("element_count") != 1):
        raise ValueError(f"{expectation.column} holds no value")  # the library passes what is null
    return bool(result.success)


def build_docs(expectations: Sequence[Expectation], frame: Mapping[str, float | None], folder: str) -> None:
    """Judge expectations and let the library build its Data Docs of it; their pages load parts from the network."""
    import great_expectations as gx

    context = _context()
    site = {
        "class_name": "SiteBuilder",
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": folder},
    }
    context.add_data_docs_site(site_name="dflash_guard", site_config=site)
    definition = gx.ValidationDefinition(
        name=SUITE, data=_batch_definition(context), suite=context.suites.add(suite_of(expectations))
    )
    action = gx.checkpoint.UpdateDataDocsAction(name="docs", site_names=["dflash_guard"])
    checkpoint = gx.Checkpoint(
        name=SUITE, validation_definitions=[context.validation_definitions.add(definition)], actions=[action]
    )
    context.checkpoints.add(checkpoint).run(batch_parameters=_parameters(frame))
