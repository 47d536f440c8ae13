"""`generate`: every completion said again by the target, behind the prompts' gate, judged before it is kept."""

import asyncio
import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa

from dflash_guard.chat.conversation import Conversation, ConversationError, read_conversation
from dflash_guard.chat.template import load_template
from dflash_guard.chat.tokenizer import load_tokenizer
from dflash_guard.contract.model import Contract
from dflash_guard.errors import ExitCode, GuardError, JudgeError, NothingToJudgeError, UsageError
from dflash_guard.facts.columns import Columns
from dflash_guard.facts.scan import scan_shards
from dflash_guard.shards.location import find_shards
from dflash_guard.shards.writer import write_whole
from dflash_guard.stages.engine import EngineError, HttpEngine, ServerFacts
from dflash_guard.stages.local_engine import TransformersEngine
from dflash_guard.stages.regeneration import Asker, Regenerated, SetAside, regenerate
from dflash_guard.verbs.check import check
from dflash_guard.verbs.drafting import draft_contract
from dflash_guard.verbs.gated import GatedData, open_gated
from dflash_guard.verbs.judging import judge_scan
from dflash_guard.verbs.outputs import refuse_nested
from dflash_guard.verdict.canonical import canonical, canonical_digest
from dflash_guard.verdict.chain import copy_verdicts
from dflash_guard.verdict.folder import GuardFolder
from dflash_guard.verdict.manifest import Manifest, Part, write_manifest
from dflash_guard.verdict.model import Verdict

__all__ = ["CanaryError", "Generated", "Progress", "generate", "preview"]

_SHARD_ROWS: Final = 1000
_CANARY_ROWS, _CANARY_SHARE = 64, 0.1


class CanaryError(GuardError):
    """Too many completions fail their contract: the run stops before more is spent."""

    exit_code: ClassVar[ExitCode] = ExitCode.VIOLATED


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is.

    Attributes:
        done, failed, set_aside: Rows.
        retried: Requests that were asked again.
        tokens: Output tokens.
        truncated, unthought: Completions that were cut off, and that have no thinking.
    """

    done: int
    failed: int
    set_aside: int
    retried: int
    tokens: int
    truncated: int
    unthought: int


@dataclass(frozen=True, slots=True)
class Generated:
    """What a run did.

    Attributes:
        verdict: Of the completions; None where there is none to judge.
        passed, failed: Rows.
        set_aside: Rows by reason.
        input: Prompts.
        failures: The folder that names failed rows, with reason, text and attempts.
    """

    verdict: Verdict
    passed: int
    failed: int
    set_aside: Mapping[str, int]
    input: int
    failures: str


@dataclass(frozen=True, slots=True)
class _Row:
    """A prompt row: its id and source as judged, and itself."""

    id: str
    source: str | None
    text: str


@dataclass(frozen=True, slots=True)
class _Failed:
    """A row that failed: why, what was said, and how often it was asked."""

    id: str
    reason: str
    detail: str
    attempts: int
    row: Mapping[str, Any] | None = None


def generate(
    data: str | Path | Sequence[str | Path],
    *,
    out: str | Path,
    base_urls: Sequence[str] = (),
    model: str,
    engine: str = "http",
    tokenizer: str | Path | None = None,
    template: str | Path | None = None,
    sampling: Mapping[str, Any] | None = None,
    max_new_tokens: int = 16_384,
    concurrency: int = 64,
    timeout: float = 1800.0,
    patience: float = 600.0,
    attempts: int = 6,
    token_ids: bool = False,
    exact: bool = False,
    limit: int = 0,
    retry_failed: bool = False,
    api_key: str = "",
    contract: str | None = None,
    mode: str | None = None,
    family: str | None = None,
    ignore: Sequence[str] = (),
    sets: Sequence[str] = (),
    memory_limit: str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Generated:
    """Regenerate completions of prompts that passed, on one or more servers.

    A run that was interrupted goes on with the ids that are not committed yet.

    Args:
        data: Prompts: files, folders or globs.
        out: The folder for the completions.
        base_urls: Of OpenAI-compatible servers.
        model: The name that they serve; for the engine `transformers` the model's folder.
        engine: `http`, or `transformers`: in this process, slowly.
        tokenizer: The target's tokenizer and template; by default what the server loaded, where that lies here.
        template: A chat template instead of its own.
        sampling: Over the family's for the mode.
        max_new_tokens: Most tokens of an answer.
        concurrency: Most requests in flight.
        timeout: Seconds that an answer may take.
        patience: Seconds without any answer after which the run is given up.
        attempts: How often a request is asked.
        token_ids: Whether rows hold the ids of prompt and answer.
        exact: Whether the servers are asked with ids (SGLang's `/generate`).
        limit: Only so many prompts; 0 for all.
        retry_failed: Whether rows that failed before are asked again.
        api_key: A bearer token.
        contract: Of the prompts' gate.
        mode: The serving mode; by default what the prompts were judged for.
        family: The target's family; by default the same.
        ignore: Rules to leave out, at the gate and when completions are judged.
        sets: Changes of rules of completions.
        memory_limit: Of the engine that judges.
        progress: Told how far it is, now and then.

    Raises:
        GateError: The prompts may not be read.
        CanaryError: Too many completions fail.
        UsageError: An option is wrong.
        JudgeError: No server answers, or the disk is full.
    """
    if engine not in {"http", "transformers"} or (engine == "http" and not base_urls):
        raise UsageError("no engine was named.", hint="give --base-url URL, --serve MODEL or --engine transformers.")
    refuse_nested([data] if isinstance(data, str | Path) else list(data), {"out": Path(out)})
    gated = open_gated(data, stage="prompts", contract=contract, mode=mode, family=family, ignore=ignore)
    asked = {
        "base_urls": list(base_urls),
        "model": model,
        "engine": engine,
        "max_new_tokens": max_new_tokens,
        "exact": exact or engine == "transformers",
        "token_ids": token_ids or exact,
        "limit": limit,
    }
    judge = _Judge(gated.passage.contract, mode, family, ignore, sets, memory_limit)
    settings = _sampling(judge.contract, sampling)
    return asyncio.run(
        _generate(
            gated, Path(out).absolute(), asked, settings, judge,
            tokenizer=tokenizer, template=template, concurrency=concurrency, timeout=timeout, patience=patience,
            attempts=attempts, retry_failed=retry_failed, api_key=api_key, ignore=ignore, sets=sets,
            progress=progress or (lambda _: None),
        )
    )  # fmt: skip


def preview(
    data: str | Path | Sequence[str | Path],
    *,
    model: str,
    tokenizer: str | Path,
    template: str | Path | None = None,
    sampling: Mapping[str, Any] | None = None,
    max_new_tokens: int = 16_384,
    rows: int = 3,
    **gate: Any,
) -> list[dict[str, Any]]:
    """The first requests of a run, as they will be sent, each with its prompt as the template renders it.

    Args:
        data: Prompts: files, folders or globs.
        model: As in `generate`.
        tokenizer: The target's tokenizer and template.
        template: A chat template instead of its own.
        sampling: Over the family's for the mode.
        max_new_tokens: Most tokens of an answer.
        rows: How many.
        **gate: contract, mode, family, ignore, as in `generate`.

    Raises:
        GateError: The prompts may not be read.
    """
    gated = open_gated(data, stage="prompts", **gate)
    judge = _Judge(gated.passage.contract, gate.get("mode"), gate.get("family"), gate.get("ignore", ()), (), None)
    loaded, chat = load_tokenizer(tokenizer), load_template(tokenizer, template)
    shown = []
    for row in islice(_prompt_rows(gated), rows):
        conversation = read_conversation(json.loads(row.text), judge.contract.aliases or {})
        first = next((i for i, m in enumerate(conversation.messages) if m["role"] == "assistant"), None)
        asked, kwargs = conversation.messages[:first], _kwargs(conversation, judge.contract.mode)
        text = chat.render(asked, tools=conversation.tools, prompt=True, **kwargs)
        request = {"model": model, "messages": asked, "max_tokens": max_new_tokens, "chat_template_kwargs": kwargs}
        request |= {"separate_reasoning": True, **_sampling(judge.contract, sampling)}
        request |= {"tools": conversation.tools} if conversation.tools else {}
        shown.append({"id": row.id, "request": request, "prompt": text, "prompt_tokens": len(loaded.encode(text))})
    return shown


def _sampling(contract: Contract, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The family's sampling for the mode, with what was given over it."""
    shipped = contract.family.sampling.get("off" if contract.mode == "off" else "thinking", {})
    return {**shipped, **(given or {})}


async def _generate(
    gated: GatedData,
    out: Path,
    asked: dict[str, Any],
    sampling: dict[str, Any],
    judge: "_Judge",
    *,
    tokenizer: str | Path | None,
    template: str | Path | None,
    concurrency: int,
    timeout: float,  # noqa: ASYNC109 - of one request
    patience: float,
    attempts: int,
    retry_failed: bool,
    api_key: str,
    ignore: Sequence[str],
    sets: Sequence[str],
    progress: Callable[[Progress], None],
) -> Generated:
    engine: HttpEngine | TransformersEngine
    if asked["engine"] == "transformers":
        engine = TransformersEngine(asked["model"], sampling=sampling, max_tokens=asked["max_new_tokens"])
    else:
        engine = HttpEngine(
            asked["base_urls"],
            model=asked["model"],
            sampling=sampling,
            max_tokens=asked["max_new_tokens"],
            concurrency=concurrency,
            attempts=attempts,
            timeout=timeout,
            patience=patience,
            token_ids=asked["token_ids"],
            exact=asked["exact"],
            api_key=api_key,
        )
    try:
        facts = await engine.facts()
        asker, generator = _asker(engine, facts, gated, asked, sampling, tokenizer, template)
        ledger = _Ledger(out, {"prompts": gated.passage.record.digest, "generator": generator})
        run = _Run(gated, asker, generator, ledger, judge, engine, progress)
        await run.run(asked["limit"], concurrency, retry_failed=retry_failed)
    finally:
        await engine.close()
    return run.finish(ignore, sets)


def _asker(
    engine: HttpEngine | TransformersEngine,
    facts: ServerFacts,
    gated: GatedData,
    asked: Mapping[str, Any],
    sampling: Mapping[str, Any],
    tokenizer: str | Path | None,
    template: str | Path | None,
) -> tuple[Asker, dict[str, Any]]:
    """What asks, and the record of who answers."""
    path = tokenizer or facts.tokenizer_path
    if not path or not Path(path).exists():
        raise UsageError(
            "the server's tokenizer does not lie on this machine, and its chat template has to be on record.",
            hint="name the served model's tokenizer folder with --tokenizer PATH.",
        )
    loaded, chat = load_tokenizer(path), load_template(path, template)
    family = gated.passage.contract.family
    room = facts.max_length - asked["max_new_tokens"] if facts.max_length else 0
    if facts.max_length and room <= 0:
        raise UsageError(
            f"--max-new-tokens {asked['max_new_tokens']:,} leaves no room in a context of {facts.max_length:,} tokens.",
            hint="ask for fewer tokens.",
        )
    asker = Asker(engine, chat, loaded, room, bool(asked["exact"]), family.thinking_tags, family.end_turn)
    generator = {
        "model": facts.model,
        "model_path": facts.model_path,
        "revision": facts.revision,
        "engine": facts.engine,
        "engine_version": facts.version,
        "sampling": {**sampling, "max_new_tokens": asked["max_new_tokens"]},
        "chat_template_sha256": chat.sha256,
        "tokenizer_sha256": loaded.sha256,
        "exact": asked["exact"],
    }
    return asker, generator


class _Judge:
    """Judges completions by the row rules before they are kept."""

    def __init__(
        self,
        gate: Contract,
        mode: str | None,
        family: str | None,
        ignore: Sequence[str],
        sets: Sequence[str],
        memory_limit: str | None,
    ) -> None:
        draft = draft_contract(
            None,
            None,
            stage="completions",
            mode=mode or gate.mode,
            family=family or gate.family.name,
            ignore=ignore,
            sets=sets,
        )
        # What a row is declared to be upstream it says itself here.
        self.contract = replace(draft.resolve(), source=None, id=None)
        self._memory_limit = memory_limit

    def failing(self, rows: Sequence[Mapping[str, Any]]) -> dict[int, list[tuple[str, str]]]:
        """The rules that rows break, with what is wrong, by their place."""
        with tempfile.TemporaryDirectory(prefix="dflash-guard-") as name:
            folder = GuardFolder(Path(name) / "guard")
            path = Path(name) / "rows.jsonl"
            path.write_text(
                "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8", errors="replace"
            )
            shards = find_shards([path]).shards
            scan = scan_shards(
                shards, self.contract, folder.facts, jobs=1, memory_limit=self._memory_limit, progress=lambda _: None
            )
            verdict = judge_scan(scan, self.contract, folder, None, data=[path], started=datetime.now(UTC), jobs=1)
            table = verdict.failures
        found: dict[int, list[tuple[str, str]]] = {}
        for each in table.filter(pa.compute.equal(table["level"], "error")).to_pylist():
            if each["row"] is not None:
                found.setdefault(each["row"], []).append((each["rule"], each["detail"]))
        return found


@dataclass
class _Ledger:
    """What of a run is committed: shards of completions, shards of failures, ids by fate. Written whole, each time.

    Attributes:
        out: The folder of the completions.
        made_of: Digests of what the run is of; another run may not write there.
    """

    out: Path
    made_of: dict[str, Any]
    shards: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    passed: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    aside: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder = GuardFolder(self.out / "__guard__")
        self.path = self.folder.path / "generate.json"
        self.failures_folder = self.folder.path / "failures"
        key = canonical_digest(self.made_of)
        if self.path.is_file():
            try:
                said = json.loads(self.path.read_bytes())
                same = said["key"] == key
            except (ValueError, KeyError, TypeError):
                same = False
            if not same:
                raise UsageError(
                    f"{self.out} was begun with other prompts, another model or other sampling.",
                    hint="name a new folder with --out, or give the same options.",
                )
            self.shards, self.failures = said["shards"], said["failures"]
            self.failed, self.aside = said["failed"], said["aside"]
            self.passed = {sample_id for shard in self.shards for sample_id in _ids_in(self.out / shard["name"])}
        elif self.out.exists() and (not self.out.is_dir() or any(self.out.iterdir())):
            raise UsageError(f"{self.out} is there already.", hint="name a new folder with --out.")
        else:
            self._write()

    def commit(self, rows: Sequence[Mapping[str, Any]], failed: Sequence[_Failed], aside: Mapping[str, str]) -> None:
        """Bring rows to the disk, then the ledger that says so."""
        if rows:
            name = f"part-{len(self.shards):05d}.jsonl"
            data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8", "replace")
            write_whole(self.out / name, data)
            self.shards.append({"name": name, "rows": len(rows), "sha256": hashlib.sha256(data).hexdigest()})
            self.passed |= {str(row["id"]) for row in rows}
        if failed:
            name = f"part-{len(self.failures):05d}.jsonl"
            lines = (
                {"id": e.id, "reason": e.reason, "detail": e.detail, "attempts": e.attempts, "row": e.row}
                for e in failed
            )
            text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
            write_whole(self.failures_folder / name, text.encode("utf-8", "replace"))
            self.failures.append(name)
            self.failed |= {each.id: each.reason for each in failed}
        self.failed = {sample_id: why for sample_id, why in self.failed.items() if sample_id not in self.passed}
        self.aside |= aside
        self._write()

    def _write(self) -> None:
        said = {
            "key": canonical_digest(self.made_of),
            "made_of": self.made_of,
            "shards": self.shards,
            "failures": self.failures,
            "failed": self.failed,
            "aside": self.aside,
        }
        write_whole(self.path, canonical(said))


def _ids_in(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield str(json.loads(line)["id"])


def _prompt_rows(gated: GatedData) -> Iterator[_Row]:
    """The prompts that passed, with id and source as they were judged.

    Raises:
        UsageError: A row has no id.
    """
    columns = Columns()
    for index in range(len(gated.shards)):
        known = gated.identities(index)
        for piece in gated.read(index):
            rows = columns.to_text(piece.rows) if piece.kind == "columns" else piece.rows
            said = known.take(pa.array(piece.places))
            texts, ids, sources = rows.column("text").to_pylist(), said["id"].to_pylist(), said["source"].to_pylist()
            for text, sample_id, source in zip(texts, ids, sources, strict=True):
                if sample_id is None:
                    raise UsageError(
                        f"a row of {gated.shards[index].name} has no id, and completions are matched by id.",
                        hint="judge the prompts with `id: content` in their contract, or write ids.",
                    )
                yield _Row(sample_id, source, text)


def _kwargs(conversation: Conversation, mode: str) -> dict[str, Any]:
    """What the template is given: the mode decides, or in mode `row` the row."""
    kwargs = dict(conversation.kwargs)
    if mode != "row":
        kwargs["enable_thinking"] = mode != "off"
    kwargs.setdefault("enable_thinking", True)
    return kwargs


class _Run:
    """One run: prompts in, completions judged and committed."""

    def __init__(
        self,
        gated: GatedData,
        asker: Asker,
        generator: dict[str, Any],
        ledger: _Ledger,
        judge: _Judge,
        engine: HttpEngine | TransformersEngine,
        progress: Callable[[Progress], None],
    ) -> None:
        self.gated, self.asker, self.generator = gated, asker, generator
        self.ledger, self.judge, self._engine, self._tell = ledger, judge, engine, progress
        self.input = 0
        self._waiting: list[dict[str, Any]] = []  # said, not judged yet
        self._good: list[dict[str, Any]] = []  # judged, not committed yet
        self._bad: list[_Failed] = []
        self._aside: dict[str, str] = {}
        self._attempts: dict[str, int] = {}
        self._watched = self._watched_bad = 0
        self._window = _CANARY_ROWS
        self._tokens = self._truncated = self._unthought = 0
        self._judging = asyncio.Lock()

    async def run(self, limit: int, concurrency: int, *, retry_failed: bool) -> None:
        """Ask for everything that is not committed yet."""
        known = self.ledger.passed | set(self.ledger.aside) | (set() if retry_failed else set(self.ledger.failed))
        room = asyncio.Semaphore(concurrency)
        tasks: set[asyncio.Task[None]] = set()
        unwatched = 0  # rows that were begun before the canary has said anything
        try:
            for row in self._rows(limit):
                if row.id in known:
                    continue
                if self._window == _CANARY_ROWS and (unwatched := unwatched + 1) > _CANARY_ROWS and tasks:
                    await asyncio.wait(tasks)
                    unwatched = 1
                await room.acquire()
                self._raise_first(tasks)
                task = asyncio.create_task(self._one(row))
                tasks.add(task)
                task.add_done_callback(lambda _: room.release())
            while tasks:
                done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            await self._flush(whole=True)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._commit()  # what was judged is kept
            raise

    @staticmethod
    def _raise_first(tasks: set[asyncio.Task[None]]) -> None:
        for task in [each for each in tasks if each.done()]:
            tasks.discard(task)
            task.result()

    def _rows(self, limit: int) -> Iterator[_Row]:
        """The prompts, counted."""
        for row in _prompt_rows(self.gated):
            if limit and self.input == limit:
                return
            self.input += 1
            yield row

    async def _one(self, row: _Row) -> None:
        try:
            conversation = read_conversation(json.loads(row.text), self.judge.contract.aliases or {})
            kwargs = _kwargs(conversation, self.judge.contract.mode)
            made = await regenerate(conversation, lambda said: self.asker.ask(said, conversation, kwargs))
        except (SetAside, ConversationError) as error:
            self._aside[row.id] = error.reason if isinstance(error, SetAside) else "unreadable row"
            return
        except EngineError as error:
            self._bad.append(_Failed(row.id, "request failed", error.what, error.attempts))
            self._watch(bad=1, rows=1)
            return
        self._waiting.append(self._written(row, conversation, made))
        self._attempts[row.id] = made.attempts
        self._note(made)
        if len(self._waiting) >= min(self._window, _SHARD_ROWS):
            await self._flush()

    def _written(self, row: _Row, conversation: Conversation, made: Regenerated) -> dict[str, Any]:
        said: dict[str, Any] = {"id": row.id, "source": row.source, "messages": made.messages}
        if conversation.tools:
            said["tools"] = conversation.tools
        if conversation.kwargs:
            said["chat_template_kwargs"] = dict(conversation.kwargs)
        said |= {"finish_reason": made.last.finish_reason, "usage": dict(made.last.usage), "generator": self.generator}
        if made.ended_early:
            said["ended_early"] = True
        if made.last.output_ids and made.last.prompt_ids and not made.ended_early:
            said |= {"prompt_ids": list(made.last.prompt_ids), "output_ids": list(made.last.output_ids)}
        return said

    def _note(self, made: Regenerated) -> None:
        self._tokens += made.completion_tokens
        self._truncated += made.last.finish_reason == "length"
        self._unthought += not (made.last.reasoning or "").strip()
        self._tell(
            Progress(
                len(self.ledger.passed) + len(self._good) + len(self._waiting),
                len(self.ledger.failed) + len(self._bad),
                len(self.ledger.aside) + len(self._aside),
                self._engine.retried,
                self._tokens,
                self._truncated,
                self._unthought,
            )
        )

    async def _flush(self, *, whole: bool = False) -> None:
        """Judge what is waiting, and commit what makes a shard."""
        async with self._judging:
            rows, self._waiting = self._waiting, []
            if rows:
                failing = await asyncio.to_thread(self.judge.failing, rows)
                for place, row in enumerate(rows):
                    attempts = self._attempts.pop(str(row["id"]), 1)
                    if place in failing:
                        rules = ", ".join(rule for rule, _ in failing[place])
                        self._bad.append(_Failed(str(row["id"]), rules, failing[place][0][1], attempts, row))
                    else:
                        self._good.append(row)
                self._watch(bad=len(failing), rows=len(rows))
            if whole or len(self._good) >= _SHARD_ROWS:
                self._commit()

    def _commit(self) -> None:
        good, bad, aside = self._good, self._bad, self._aside
        self._good, self._bad, self._aside = [], [], {}
        if good or bad or aside:
            self.ledger.commit(good, bad, aside)

    def _watch(self, *, bad: int, rows: int) -> None:
        """The canary: stop where too many of the first completions, or of any later window, fail."""
        self._watched += rows
        self._watched_bad += bad
        if self._watched < self._window:
            return
        watched, found = self._watched, self._watched_bad
        self._window, self._watched, self._watched_bad = _SHARD_ROWS, 0, 0
        if found > _CANARY_SHARE * watched:
            counts = Counter(each.reason for each in self._bad)
            shown = "; ".join(f"{count} × {reason}" for reason, count in counts.most_common(3))
            first = self._bad[0]
            raise CanaryError(
                f"{found} of {watched} completions fail: {shown}. The first is id {first.id}: {first.detail}.",
                hint=f"see {self.ledger.failures_folder}; mend the server (parser, template, limits), then run it "
                "again with --retry-failed.",
            )

    def finish(self, ignore: Sequence[str], sets: Sequence[str]) -> Generated:
        """Write the manifest and judge the completions."""
        ledger = self.ledger
        accounted = len(ledger.passed) + len(ledger.failed) + len(ledger.aside)
        if accounted != self.input:
            raise JudgeError(
                f"{accounted:,} rows are accounted for, and {self.input:,} were given.",
                hint="ids of the prompts are not unique: check them (duplicate-id), and begin a new folder.",
            )
        failures = str(ledger.failures_folder)
        aside = Counter(ledger.aside.values())
        if not ledger.shards:
            raise NothingToJudgeError(f"no completion passed of {self.input:,} prompts.", hint=f"see {failures}.")
        passage = self.gated.passage
        parent = passage.as_parent
        copy_verdicts(ledger.folder, [parent], beside=passage.folder)
        beyond = self.gated.rows - self.input
        write_manifest(
            ledger.folder,
            Manifest(
                stage="completions",
                maker="generate",
                format="jsonl",
                shards=tuple(Part(each["name"], each["rows"], each["sha256"]) for each in ledger.shards),
                parents=(parent,),
                generator=self.generator,
                mode=self.judge.contract.mode,
                family=self.judge.contract.family.name,
                parameters={"input": self.input},
                set_aside={
                    **aside,
                    **({"failed": len(ledger.failed)} if ledger.failed else {}),
                    **({"beyond --limit": beyond} if beyond else {}),
                },
            ),
        )
        verdict = check(ledger.out, stage="completions", ignore=ignore, sets=sets)
        return Generated(verdict, len(ledger.passed), len(ledger.failed), dict(aside), self.input, failures)
