"""`tokenize`: completions behind their gate to token rows with a loss mask, judged on the way out."""

import json
import multiprocessing
import os
import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

import duckdb
import pyarrow as pa

from dflash_guard.chat.masks import BUILDERS, Marks
from dflash_guard.chat.template import load_template
from dflash_guard.chat.tokenizer import TextTokenizer, load_tokenizer
from dflash_guard.contract.catalog import CATALOG
from dflash_guard.contract.model import Family
from dflash_guard.errors import JudgeError, NothingToJudgeError, UsageError
from dflash_guard.facts.columns import Columns
from dflash_guard.facts.sql import sql
from dflash_guard.shards.digest import sha256_of
from dflash_guard.shards.row_groups import RowGroupWriter
from dflash_guard.shards.writer import publish, temporary_name, whole_path, write_whole
from dflash_guard.stages._tokenize_rows import ASIDE, ROWS, Chunk, Row, RowSettings, RowTokenizer, start_worker, work
from dflash_guard.verbs.check import check
from dflash_guard.verbs.gated import GatedData, open_gated
from dflash_guard.verbs.outputs import refuse_nested
from dflash_guard.verdict.canonical import canonical, canonical_digest
from dflash_guard.verdict.chain import copy_verdicts
from dflash_guard.verdict.folder import GuardFolder
from dflash_guard.verdict.manifest import Manifest, Part, read_manifest, tool_version, write_manifest
from dflash_guard.verdict.model import Verdict
from dflash_guard.verdict.record import is_as_written

__all__ = ["Tokenized", "tokenize"]

_CHUNK_ROWS: Final = 256
_PART_ROWS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Tokenized:
    """What `tokenize` did.

    Attributes:
        verdict: Of the token rows.
        rows: How many there are.
        set_aside: Rows that were left out, by reason.
        aside: The file that names them.
        resumed: Input shards that an earlier run had done.
    """

    verdict: Verdict
    rows: int
    set_aside: Mapping[str, int]
    aside: str
    resumed: int


def tokenize(
    data: str | Path | Sequence[str | Path],
    *,
    out: str | Path,
    tokenizer: str | Path,
    template: str | Path | None = None,
    turns: str = "all",
    builder: str = "auto",
    max_length: int = 0,
    overlong: str = "drop",
    contract: str | None = None,
    mode: str | None = None,
    family: str | None = None,
    ignore: Sequence[str] = (),
    sets: Sequence[str] = (),
    jobs: int | None = None,
    memory_limit: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Tokenized:
    """Tokenize completions that passed, mask what the model wrote, and judge the rows.

    A run that was interrupted goes on with the next input shard; nothing stands in `out` before all is done.

    Args:
        data: Completions: files, folders or globs.
        out: A new folder for the token rows.
        tokenizer: The target's tokenizer: a folder or a `tokenizer.json`.
        template: A chat template instead of the tokenizer's own.
        turns: `all` assistant turns, each a row, or the `last`.
        builder: `engine`, `boundary`, `tags`, or `auto`: the engine's ids where a row has them, else `boundary`.
        max_length: Most tokens of a row; 0 for no limit.
        overlong: `drop` or `clip` what is longer.
        contract: The contract of the completions' gate.
        mode: The serving mode; by default what the completions were judged for.
        family: The target's family; by default the same.
        ignore: Rules to leave out, at the gate and when the rows are judged.
        sets: Changes of rules, at the stages that judge them.
        jobs: Processes; all cores by default.
        memory_limit: Of the engine that judges.
        progress: Told rows read and rows made since the last call.

    Raises:
        GateError: The completions may not be read.
        UsageError: An option is wrong, the tokenizer is of another family, or the folder is taken.
        JudgeError: A worker died, or the disk is full.
        NothingToJudgeError: No row could be made.
    """
    refuse_nested([data] if isinstance(data, str | Path) else list(data), {"out": Path(out)})
    gated = open_gated(
        data,
        stage="completions",
        contract=contract,
        mode=mode,
        family=family,
        ignore=ignore,
        sets=_sets_of(sets, "completions"),
    )
    asked = _settings(gated, tokenizer, template, turns, builder, max_length, overlong)
    run = _Run(gated, asked, Path(out).absolute())
    with _pool(asked, jobs or os.cpu_count() or 1) as submit:
        for index in range(len(gated.shards)):
            run.make(index, submit, progress or _unseen)
    run.finish()
    verdict = check(
        run.out,
        stage="tokenized",
        ignore=ignore,
        sets=_sets_of(sets, "tokenized"),
        jobs=jobs,
        memory_limit=memory_limit,
    )
    return Tokenized(verdict, run.rows, dict(run.aside), str(run.aside_path), run.resumed)


def _unseen(_: int, __: int) -> None:
    pass


def _sets_of(sets: Sequence[str], stage: str) -> list[str]:
    """The changes that concern rules of a stage; of rules that nobody knows, too, so that they are refused."""
    names = [each.partition("=")[0].rpartition(".")[0].strip() for each in sets]
    return [
        each
        for each, name in zip(sets, names, strict=True)
        if name not in CATALOG or any(stage == of for of in CATALOG[name].stages)
    ]


def _settings(
    gated: GatedData,
    tokenizer: str | Path,
    template: str | Path | None,
    turns: str,
    builder: str,
    max_length: int,
    overlong: str,
) -> RowSettings:
    for what, word, known in (
        ("turns", turns, ("all", "last")),
        ("builder", builder, ("auto", *BUILDERS)),
        ("overlong", overlong, ("drop", "clip")),
    ):
        if word not in known:
            raise UsageError(f"--{what}: must be one of {', '.join(known)}, not {word}.", hint="see --help.")
    contract = gated.passage.contract
    loaded = load_tokenizer(tokenizer)
    chat = load_template(tokenizer, template)
    if builder == "tags" and not chat.has_tags:
        raise UsageError(
            "--builder tags: the chat template has no generation tags.",
            hint="take --builder boundary, or a template with {% generation %} tags.",
        )
    generator = (manifest.generator or {}) if (manifest := read_manifest(gated.passage.folder)) is not None else {}
    for key, here, what in (
        ("tokenizer_sha256", loaded.sha256, "tokenizer"),
        ("chat_template_sha256", chat.sha256, "chat template"),
    ):
        said = generator.get(key)
        if said and said != here:
            raise UsageError(
                f"the completions were made with another {what} (sha256 {said[:12]}…) than this one ({here[:12]}…).",
                hint=f"name the {what} that the engine served with.",
            )
    return RowSettings(
        tokenizer=str(Path(tokenizer).absolute()),
        tokenizer_sha256=loaded.sha256,
        template=chat,
        marks=_marks(contract.family, loaded),
        aliases=dict(contract.aliases or {}),
        builder=builder,
        turns=turns,
        mode=contract.mode,
        max_length=max_length,
        clip=overlong == "clip",
        served_template=str(generator.get("chat_template_sha256") or ""),
    )


def _marks(family: Family, tokenizer: TextTokenizer) -> Marks:
    """The family's turn and thinking tokens, which must be the tokenizer's."""
    begin, end = family.turn_texts[0], family.turn_texts[1]
    for text, wanted in ((begin, family.begin_turn), (end, family.end_turn)):
        found = tokenizer.token_id(text)
        if found != wanted:
            said = "no token" if found is None else f"id {found}"
            raise UsageError(
                f"the tokenizer is not of family {family.name}: {text} is {said} in it, not {wanted}.",
                hint="name the target's tokenizer, or its family with --family.",
            )
    thinks = family.think_open >= 0
    return Marks(
        begin=family.begin_turn,
        end=family.end_turn,
        begin_text=begin,
        end_text=end,
        think_open=family.thinking_tags[0] if thinks else "",
        think_close=family.thinking_tags[1] if thinks else "",
        system_text=f"{begin}system",
    )


Submit = Callable[[Iterable[list[Row]]], Iterator[tuple[int, Chunk]]]


@contextmanager
def _pool(settings: RowSettings, jobs: int) -> Iterator[Submit]:
    """A way to map runs of rows, in order, with few of them in hand: in this process, or in spawned ones."""
    if jobs == 1:
        here = RowTokenizer(settings)
        yield lambda runs: ((len(rows), here.tokenize(rows)) for rows in runs)
        return
    # Fast tokenizers hang in processes that were forked after they were used.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=start_worker, initargs=(settings,)) as pool:
        yield lambda runs: _ordered(pool, runs, jobs)


def _ordered(pool: ProcessPoolExecutor, runs: Iterable[list[Row]], jobs: int) -> Iterator[tuple[int, Chunk]]:
    waiting: deque[tuple[int, Future[Chunk]]] = deque()
    try:
        for rows in runs:
            waiting.append((len(rows), pool.submit(work, rows)))
            if len(waiting) > 2 * jobs:
                count, future = waiting.popleft()
                yield count, future.result()
        while waiting:
            count, future = waiting.popleft()
            yield count, future.result()
    except BrokenProcessPool as error:
        raise JudgeError(
            "a worker process died, perhaps for want of memory.",
            hint="run it again, with fewer --jobs; what is done is kept.",
        ) from error


class _Run:
    """One run: which input shards are done, and what became of their rows."""

    def __init__(self, gated: GatedData, settings: RowSettings, out: Path) -> None:
        self.gated, self.settings, self.out = gated, settings, out
        self.folder = GuardFolder(out / "__guard__")
        self.parts = self.folder.path / "parts"
        self.rows = self.resumed = 0
        self.aside: Counter[str] = Counter()
        self.aside_path = self.folder.path / "set_aside.parquet"
        self.made: list[Part] = []
        self.record = {
            "tokenizer_sha256": settings.tokenizer_sha256,
            "chat_template_sha256": settings.template.sha256,
            "builder": settings.builder,
            "turns": settings.turns,
            "end_token_supervised": True,
            "max_length": settings.max_length or None,
            "overlong": "clip" if settings.clip else "drop",
            "mode": settings.mode,
            "family": gated.passage.contract.family.name,
        }
        self.key = canonical_digest(
            {"record": self.record, "verdict": gated.passage.record.digest, "marks": asdict(settings.marks)}
        )
        self._refuse_taken()

    def _refuse_taken(self) -> None:
        """Refuse a folder that holds anything but this very run."""
        begun = self.folder.path / "tokenize.json"
        if begun.is_file():
            try:
                same = json.loads(begun.read_bytes())["key"] == self.key
            except (ValueError, KeyError, TypeError):
                same = False
            if same:
                return
            raise UsageError(
                f"{self.out} was begun with other data or options.", hint="name a new folder, or remove this one first."
            )
        if self.out.exists() and (not self.out.is_dir() or any(self.out.iterdir())):
            raise UsageError(f"{self.out} is there already.", hint="name a new folder with --out.")
        write_whole(begun, canonical({"key": self.key, "record": self.record}))

    def make(self, index: int, submit: Submit, progress: Callable[[int, int], None]) -> None:
        """Make the token rows of one input shard, unless an earlier run has."""
        ledger = self.parts / f"{index:05d}.json"
        if ledger.is_file():
            done = json.loads(ledger.read_bytes())
            self.resumed += 1
        else:
            done = self._make(index, submit, progress)
            write_whole(ledger, canonical(done))
        self.made += [Part(each["name"], each["rows"], each["sha256"]) for each in done["parts"]]
        self.rows += sum(each["rows"] for each in done["parts"])
        self.aside.update(done["aside"])

    def _make(self, index: int, submit: Submit, progress: Callable[[int, int], None]) -> dict[str, Any]:
        parts: list[dict[str, Any]] = []
        aside: Counter[str] = Counter()
        names = self.settings.mode == "row"
        schema = ROWS if names else pa.schema([field for field in ROWS if field.name != "enable_thinking"])
        with (
            _PartWriter(self.parts, index, schema) as writer,
            whole_path(self.parts / f"{index:05d}.aside.parquet") as left,
        ):
            with closing(RowGroupWriter(left, ASIDE)) as leaves:
                for count, chunk in submit(self._runs(index)):
                    writer.write(chunk.rows.select(schema.names))
                    if chunk.aside.num_rows:
                        leaves.write_batch(chunk.aside)
                        aside.update(chunk.aside.column("reason").to_pylist())
                    progress(count, chunk.rows.num_rows)
            parts = writer.close()
        return {"parts": parts, "aside": dict(aside)}

    def _runs(self, index: int) -> Iterator[list[Row]]:
        """The shard's rows with their id and source, a run at a time."""
        columns = Columns()
        known = self.gated.identities(index)
        for piece in self.gated.read(index):
            rows = columns.to_text(piece.rows) if piece.kind == "columns" else piece.rows
            said = known.take(pa.array(piece.places))
            for at in range(0, rows.num_rows, _CHUNK_ROWS):
                texts = rows.column("text").slice(at, _CHUNK_ROWS).to_pylist()
                ids, sources = (said.column(name).slice(at, _CHUNK_ROWS).to_pylist() for name in ("id", "source"))
                yield list(zip(texts, ids, sources, strict=True))

    def finish(self) -> None:
        """Bring everything to its place; the manifest comes last."""
        if not self.rows:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.aside.most_common(3))
            raise NothingToJudgeError(
                f"no row could be tokenized: {reasons or 'no row passed'}.", hint=f"{self.parts} names each row."
            )
        for part in self.made:
            staged = self.parts / part.name
            if staged.exists():
                staged.replace(self.out / part.name)
        evidence = {}
        if (prompts := self._write_prompts()) is not None:
            evidence["prompts"] = prompts
        parent = self.gated.passage.as_parent
        copy_verdicts(self.folder, [parent], beside=self.gated.passage.folder)
        write_manifest(
            self.folder,
            Manifest(
                stage="tokenized",
                maker="tokenize",
                format="parquet",
                shards=tuple(self.made),
                parents=(parent,),
                tokenizer=self.record,
                mode=self.settings.mode,
                family=self.gated.passage.contract.family.name,
                parameters={"rows": self.rows, "rows_set_aside": dict(self.aside)},
                set_aside=self._lost_ids(),
                evidence=evidence,
            ),
        )
        shutil.rmtree(self.parts, ignore_errors=True)

    def _lost_ids(self) -> dict[str, int]:
        """Ids of which no row was made, by reason; the rows that were set aside are gathered in one file."""
        files = sorted(str(each) for each in self.parts.glob("*.aside.parquet"))
        with duckdb.connect() as connection, whole_path(self.aside_path) as temporary:
            connection.read_parquet(files).create_view("aside")
            connection.read_parquet([str(self.out / part.name) for part in self.made]).create_view("made")
            connection.table("aside").write_parquet(str(temporary), compression="zstd")
            found = connection.execute(sql("lost_ids.sql", "dflash_guard.stages")).fetchall()
        return {reason: int(count) for reason, count in found}

    def _write_prompts(self) -> dict[str, str] | None:
        """Which prompt each token row has, by the facts of the completions, for the rules that compare prompts."""
        passage = self.gated.passage
        files = [each.facts for each in passage.record.shards if each.facts is not None]
        if not files or not all(is_as_written(passage.folder, each) for each in files):
            return None
        path = self.folder.path / "prompts.parquet"
        with duckdb.connect() as connection, whole_path(path) as temporary:
            connection.read_parquet([str(passage.folder.path / each.path) for each in files]).create_view("facts")
            connection.read_parquet([str(self.out / part.name) for part in self.made]).create_view("made")
            connection.sql(sql("prompts.sql", "dflash_guard.stages")).write_parquet(str(temporary), compression="zstd")
        return {"path": path.name, "sha256": sha256_of(path), "duckdb": tool_version("duckdb")}


class _PartWriter:
    """Writes the token rows of one input shard to parts of a sensible size, each whole or absent."""

    def __init__(self, folder: Path, index: int, schema: pa.Schema) -> None:
        self._folder, self._index, self._schema = folder, index, schema
        self._parts: list[dict[str, Any]] = []
        self._writer: RowGroupWriter | None = None
        self._temporary = folder
        self._rows = 0

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()
            self._temporary.unlink(missing_ok=True)

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows."""
        if not rows.num_rows:
            return
        if self._writer is None:
            self._temporary = temporary_name(self._folder / self._name())
            self._writer = RowGroupWriter(self._temporary, self._schema)
        self._writer.write_batch(rows)
        self._rows += rows.num_rows
        if self._rows >= _PART_ROWS:
            self._close_part()

    def close(self) -> list[dict[str, Any]]:
        """All parts, with rows and sha256."""
        self._close_part()
        return self._parts

    def _name(self) -> str:
        return f"part-{self._index:05d}-{len(self._parts):03d}.parquet"

    def _close_part(self) -> None:
        if self._writer is None:
            return
        self._writer.close()
        self._writer = None
        path = self._folder / self._name()
        publish(self._temporary, path)
        self._parts.append({"name": path.name, "rows": self._rows, "sha256": sha256_of(path)})
        self._rows = 0
