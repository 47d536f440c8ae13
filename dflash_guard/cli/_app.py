"""The typer application: which commands there are, and how one of them is run."""

from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from dflash_guard.cli._console import steady
from dflash_guard.cli._errors import tell
from dflash_guard.cli.autopsy import EPILOG as AUTOPSY
from dflash_guard.cli.autopsy import autopsy
from dflash_guard.cli.check import EPILOG as CHECK
from dflash_guard.cli.check import check
from dflash_guard.cli.contract import DIFF as CONTRACT_DIFF
from dflash_guard.cli.contract import EXPORT as CONTRACT_EXPORT
from dflash_guard.cli.contract import SHOW as CONTRACT_SHOW
from dflash_guard.cli.contract import diff as contract_diff
from dflash_guard.cli.contract import export as contract_export
from dflash_guard.cli.contract import show as contract_show
from dflash_guard.cli.diff import EPILOG as DIFF
from dflash_guard.cli.diff import diff
from dflash_guard.cli.explain import EPILOG as EXPLAIN
from dflash_guard.cli.explain import explain
from dflash_guard.cli.gate import EPILOG as GATE
from dflash_guard.cli.gate import GateCommand, gate
from dflash_guard.cli.generate import EPILOG as GENERATE
from dflash_guard.cli.generate import generate
from dflash_guard.cli.lineage import EPILOG as LINEAGE
from dflash_guard.cli.lineage import lineage
from dflash_guard.cli.plan import EPILOG as PLAN
from dflash_guard.cli.plan import plan
from dflash_guard.cli.preflight import EPILOG as PREFLIGHT
from dflash_guard.cli.preflight import preflight
from dflash_guard.cli.profile import EPILOG as PROFILE
from dflash_guard.cli.profile import profile
from dflash_guard.cli.report import EPILOG as REPORT
from dflash_guard.cli.report import report
from dflash_guard.cli.rules import EPILOG as RULES
from dflash_guard.cli.rules import rules
from dflash_guard.cli.split import EPILOG as SPLIT
from dflash_guard.cli.split import split
from dflash_guard.cli.sql import EPILOG as SQL
from dflash_guard.cli.sql import sql
from dflash_guard.cli.tokenize import EPILOG as TOKENIZE
from dflash_guard.cli.tokenize import tokenize
from dflash_guard.errors import ExitCode

__all__ = ["app", "invoke"]

COMMANDS: tuple[tuple[Callable[..., int], str], ...] = (
    (check, CHECK),
    (gate, GATE),
    (split, SPLIT),
    (lineage, LINEAGE),
    (preflight, PREFLIGHT),
    (plan, PLAN),
    (generate, GENERATE),
    (tokenize, TOKENIZE),
    (profile, PROFILE),
    (autopsy, AUTOPSY),
    (report, REPORT),
    (diff, DIFF),
    (sql, SQL),
    (rules, RULES),
    (explain, EXPLAIN),
)

EPILOG = """\b
Example:
  dflash-guard check shards/ --stage tokenized

\b
Exit codes: 0 passed, 1 violated, 2 usage, 3 could not judge, 4 nothing to judge,
5 a verdict is missing or stale, 130 interrupted."""

app = typer.Typer(
    name="dflash-guard",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EPILOG,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich would double the time of --help
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"dflash-guard {version('dflash-guard')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Judge a drafter's training data between its stages, before GPU hours are spent on it."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(ExitCode.USAGE)


def _carried(command: Callable[..., int]) -> Callable[..., int | BaseException]:
    """Hands an exception out as the result: typer would take a broken socket for a closed pipe, and exit 1."""

    @wraps(command)
    def carried(*args: Any, **kwargs: Any) -> int | BaseException:
        try:
            return command(*args, **kwargs)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - told by invoke()
            return error

    return carried


for _command, _epilog in COMMANDS:
    app.command(epilog=_epilog, cls=GateCommand if _command is gate else None)(_carried(_command))

_contracts = typer.Typer(
    help="Show, export and compare contracts.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    rich_markup_mode=None,
)
_CONTRACT_COMMANDS: tuple[tuple[Callable[..., int], str, str], ...] = (
    (contract_show, "show", CONTRACT_SHOW),
    (contract_export, "export", CONTRACT_EXPORT),
    (contract_diff, "diff", CONTRACT_DIFF),
)
for _command, _name, _epilog in _CONTRACT_COMMANDS:
    _contracts.command(_name, epilog=_epilog)(_carried(_command))
app.add_typer(_contracts, name="contract")


def invoke(arguments: list[str]) -> int:
    """Runs a command line; prints errors instead of raising them; returns the exit code."""
    steady()
    try:
        outcome = typer.main.get_command(app).main(args=arguments, prog_name="dflash-guard", standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - told on the next line
        outcome = error
    except SystemExit:  # typer's answer to a closed pipe under --help
        return ExitCode.PASSED
    if isinstance(outcome, BaseException):
        return tell(outcome)
    return int(outcome or ExitCode.PASSED)
