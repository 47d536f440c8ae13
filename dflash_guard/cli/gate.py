"""`dflash-guard gate`: let a command run only on data that has passed."""

import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from dflash_guard.cli._options import Contract, Data, Family, Ignore, Mode, Out, Sets, rules_in
from dflash_guard.errors import ExitCode, GateError, UsageError

if TYPE_CHECKING:
    from dflash_guard.verbs.gate import Passage

__all__ = ["EPILOG", "GateCommand", "gate"]

EPILOG = """\b
Examples:
  dflash-guard gate shards/ --stage tokenized -- torchrun --nproc-per-node 8 train.py
  dflash-guard gate shards/ --stage tokenized --check --upstream completions/

Everything behind -- is the command. It replaces this process, with DFLASH_GUARD_VERDICT set to the verdict's path.
A shut gate is exit 5, says why, and says what to run."""

VERDICT = "DFLASH_GUARD_VERDICT"


class GateCommand(TyperCommand):
    """Takes what stands behind `--` apart, so that a second DATA is never taken for a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep the command for the function; parse the rest."""
        if "--" in args:
            cut = args.index("--")
            ctx.meta[VERDICT] = args[cut + 1 :]
            args = args[:cut]
        return super().parse_args(ctx, args)


def gate(
    ctx: typer.Context,
    data: Data,
    stage: Annotated[
        Literal["prompts", "completions", "tokenized", "hidden_states"] | None,
        typer.Option("--stage", "-s", metavar="STAGE", help="Whose verdict must pass.  [default: the only one there]"),
    ] = None,
    contract: Contract = None,
    mode: Mode = None,
    family: Family = None,
    upstream: Annotated[
        str | None, typer.Option(metavar="DATA", help="A data set that it must have been compared with.")
    ] = None,
    ignore: Ignore = None,
    sets: Sets = None,
    out: Out = None,
    verdict: Annotated[
        str | None, typer.Option(metavar="FILE", help="The verdict, where it is not beside the data.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Judge first where no fresh verdict opens the gate.")] = False,
    rehash: Annotated[bool, typer.Option("--rehash", help="Read every byte, whatever the file system says.")] = False,
    allow_quarantined: Annotated[
        bool, typer.Option("--allow-quarantined", help="Let CMD see rows that failed within tolerance.")
    ] = False,
    trust: Annotated[
        list[str] | None, typer.Option(metavar="PUBKEY", help="A key that must have signed the verdict; repeatable.")
    ] = None,
) -> int:
    """Verify the verdict against the bytes and the contract as they are now, then run a command.

    The verdict must pass, be of exactly these shards, have been judged at least as strictly as the contract in force
    asks, and so must the verdicts of the data sets that this one was made from.
    """
    from dflash_guard.verbs.gate import gate as verify

    command = ctx.meta.get(VERDICT)
    if command is not None and (not command or not command[0]):
        raise UsageError("there is no command behind `--`.", hint="write it there, or leave `--` away.")
    options: dict[str, Any] = {
        "stage": stage,
        "contract": contract,
        "mode": mode,
        "family": family,
        "upstream": upstream,
        "ignore": rules_in(ignore),
        "sets": tuple(sets or ()),
        "out": out,
    }
    try:
        passage = verify(data, **options, verdict=verdict, rehash=rehash, trust=tuple(trust or ()))
    except GateError:
        if not check:
            raise
        _judge(data, options)
        passage = verify(data, **options, verdict=verdict, rehash=rehash, trust=tuple(trust or ()))
    left = passage.record.counts.quarantined_rows
    if command and left and not allow_quarantined:
        raise GateError(
            f"{left:,} rows failed an error rule within its tolerance, and the command would read them.",
            hint="write the others with `dflash-guard split`, or say --allow-quarantined.",
        )
    _tell(passage, sys.stderr if command else sys.stdout)
    return _replace(command, passage) if command else ExitCode.PASSED


def _judge(data: list[str], options: dict[str, Any]) -> None:
    from dflash_guard import report
    from dflash_guard.cli._progress import progress
    from dflash_guard.verbs.check import check

    if options["stage"] is None:
        raise UsageError("--check needs the stage to judge at.", hint="add --stage tokenized, for example.")
    with progress(sys.stderr) as advance:
        verdict = check(data, **options, progress=advance)
    for piece in report.pieces(
        verdict, "concise", report.Style.of(sys.stderr, max_failures=3, redact=False, color=False)
    ):
        sys.stderr.write(piece)


def _tell(passage: "Passage", stream: Any) -> None:
    record = passage.record
    chain = " ← ".join([record.stage, *(link.record.stage for link in passage.chain)])
    counts = f"{record.counts.rows:,} rows · {record.counts.shards:,} shards"
    judged = (
        f"judged {record.started:%Y-%m-%d %H:%M} UTC by contract {record.contract_name} {record.contract_digest[:19]}…"
    )
    lines = [f"gate open: {chain} · {counts} · {judged}"]
    if not passage.reaches_prompts:
        end = passage.chain[-1].record.stage if passage.chain else record.stage
        lines.append(f"note: the chain of verdicts ends at {end}: what it was made from was never named (--upstream).")
    if left := record.counts.quarantined_rows:
        lines.append(f"note: {left:,} rows that failed within tolerance are in the shards; `split` leaves them out.")
    stream.write("".join(f"{line}\n" for line in lines))


def _replace(command: list[str], passage: "Passage") -> int:
    """Become the command; its signals and exit status are then its own.

    Raises:
        UsageError: It can't be started.
    """
    for each in ("SIGPIPE", "SIGXFSZ"):  # Python ignores these, and a process hands down what it ignores
        signal.signal(getattr(signal, each), signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(command[0], command, {**os.environ, VERDICT: str(passage.record.path)})  # noqa: S606
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"{command[0]} can't be run: {why}.", hint="check the command behind `--`.") from error
