"""What `tokenize` does with a run of rows, in this process or in a worker: JSON text in, token rows out."""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dflash_guard.chat.conversation import ConversationError, read_conversation
from dflash_guard.chat.masks import Job, Marks, Masked, MaskError, Planner
from dflash_guard.chat.template import ChatTemplate, TemplateError
from dflash_guard.chat.tokenizer import load_tokenizer

__all__ = ["ASIDE", "ROWS", "Chunk", "Row", "RowSettings", "RowTokenizer", "start_worker", "work"]

ROWS = pa.schema(
    [
        ("sample_id", pa.string()),
        ("source", pa.string()),
        ("turn", pa.int32()),
        ("input_ids", pa.list_(pa.int32())),
        ("loss_mask", pa.list_(pa.int8())),
        ("seq_len", pa.int32()),
        ("enable_thinking", pa.bool_()),
        ("builder", pa.dictionary(pa.int8(), pa.string())),
    ]
)
"""A token row; `enable_thinking` is there in mode `row` only."""

ASIDE = pa.schema([("sample_id", pa.string()), ("turn", pa.int32()), ("reason", pa.string()), ("detail", pa.string())])
"""A row that was set aside."""


Row = tuple[str, str | None, str | None]
"""A row as JSON text, its id and its source."""


@dataclass(frozen=True, slots=True)
class RowSettings:
    """All that decides what becomes of a row; goes to workers.

    Attributes:
        tokenizer: Path of the tokenizer.
        tokenizer_sha256: Digest of its file.
        template: The chat template.
        marks: The target's turn and thinking tokens.
        aliases: Other names of roles.
        builder, turns: As of `Planner`.
        mode: The serving mode.
        max_length: Most tokens of a row, 0 for no limit.
        clip: Whether longer rows are cut instead of set aside.
        served_template: As of `Planner`.
    """

    tokenizer: str
    tokenizer_sha256: str
    template: ChatTemplate
    marks: Marks
    aliases: Mapping[str, str]
    builder: str
    turns: str
    mode: str
    max_length: int
    clip: bool
    served_template: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """What became of a run of rows: token rows (ROWS), and those set aside (ASIDE)."""

    rows: pa.RecordBatch
    aside: pa.RecordBatch


class RowTokenizer:
    """Tokenizes runs of rows.

    Args:
        settings: What decides what becomes of a row.
    """

    def __init__(self, settings: RowSettings) -> None:
        self.settings = settings
        self.tokenizer = load_tokenizer(settings.tokenizer)
        self.planner = Planner(
            settings.template,
            self.tokenizer,
            settings.marks,
            builder=settings.builder,
            turns=settings.turns,
            enable_thinking=settings.mode != "off",
            served_template=settings.served_template,
        )

    def warm_up(self) -> None:
        """Import and compile what the first row would wait for."""
        with suppress(TemplateError):
            self.settings.template.render([{"role": "user", "content": ""}], prompt=True)

    def tokenize(self, rows: Sequence[Row]) -> Chunk:
        """Make token rows."""
        planned: list[tuple[str, str, bool, Job]] = []
        aside: list[tuple[str, int | None, str, str]] = []
        for row in rows:
            self._plan(row, planned, aside)
        encoded = iter(self.tokenizer.encode_batch([job.text for *_, job in planned if job.ids is None]))
        kept: list[tuple[str, str, bool, Job, Masked]] = []
        for sample_id, source, thinks, job in planned:
            try:
                ids = np.array(next(encoded), np.int32) if job.ids is None else np.empty(0, np.int32)
                offsets = np.array(self.tokenizer.offsets(job.text), np.int64) if job.builder == "tags" else None
                kept.append((sample_id, source, thinks, job, self._fit(self.planner.mask(job, ids, offsets))))
            except MaskError as error:
                aside.append((sample_id, job.turn, error.reason, error.detail))
        return Chunk(_rows(kept), _aside(aside))

    def _plan(
        self,
        row: Row,
        planned: list[tuple[str, str, bool, Job]],
        aside: list[tuple[str, int | None, str, str]],
    ) -> None:
        text, said_id, said_source = row
        sample_id, source = said_id or "", said_source or ""
        try:
            conversation = read_conversation(json.loads(text), self.settings.aliases)
            thinks = bool(conversation.kwargs.get("enable_thinking", self.settings.mode != "off"))
            for index in self.planner.turns_of(conversation):
                try:
                    planned.append((sample_id, source, thinks, self.planner.plan(conversation, index)))
                except MaskError as error:
                    aside.append((sample_id, index - conversation.added, error.reason, error.detail))
        except (ConversationError, TypeError, AttributeError, KeyError, IndexError) as error:
            # A row of a form that nobody thought of costs itself, not the run.
            aside.append((sample_id, None, "unreadable row", f"{type(error).__name__}: {error}"))
        except MaskError as error:
            aside.append((sample_id, None, error.reason, error.detail))

    def _fit(self, row: Masked) -> Masked:
        """The row within the length that is allowed."""
        limit = self.settings.max_length
        if not limit or len(row.ids) <= limit:
            return row
        if not self.settings.clip:
            raise MaskError("over max length", f"{len(row.ids):,} tokens, {limit:,} are allowed")
        if not row.mask[:limit].any():
            raise MaskError("over max length", f"nothing supervised is within {limit:,} tokens")
        return Masked(row.ids[:limit], row.mask[:limit])


def _rows(kept: Sequence[tuple[str, str, bool, Job, Masked]]) -> pa.RecordBatch:
    lengths = np.array([len(each[4].ids) for each in kept], np.int32)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    ids = np.concatenate([each[4].ids for each in kept]) if kept else np.empty(0, np.int32)
    mask = np.concatenate([each[4].mask for each in kept]) if kept else np.empty(0, np.int8)
    columns: list[Any] = [
        pa.array([each[0] or None for each in kept], pa.string()),
        pa.array([each[1] or None for each in kept], pa.string()),
        pa.array([each[3].turn for each in kept], pa.int32()),
        pa.ListArray.from_arrays(offsets, pa.array(ids)),
        pa.ListArray.from_arrays(offsets, pa.array(mask)),
        pa.array(lengths),
        pa.array([each[2] for each in kept], pa.bool_()),
        pa.array([each[3].builder for each in kept], pa.string()).cast(ROWS.field("builder").type),
    ]
    return pa.record_batch(columns, schema=ROWS)


def _aside(rows: Sequence[tuple[str, int | None, str, str]]) -> pa.RecordBatch:
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(ASIDE)]
    return pa.record_batch(columns, schema=ASIDE)


_worker: RowTokenizer | None = None


def start_worker(settings: RowSettings) -> None:
    """Make this process a worker; each has a core of its own, so its tokenizer must not take the others."""
    global _worker  # noqa: PLW0603 - one a process
    # One thread each, by the pool's size: switched off, tokenizers take a path that costs 60 % more (0.23).
    os.environ |= {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "true"}
    _worker = RowTokenizer(settings)
    _worker.warm_up()


def work(rows: Sequence[Row]) -> Chunk:
    """Tokenize a run of rows in a worker."""
    if _worker is None:
        raise RuntimeError("start_worker was not called")
    return _worker.tokenize(rows)
