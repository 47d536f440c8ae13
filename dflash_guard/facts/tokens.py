"""The facts of tokenized rows: one narrow row for each, out of its ids and its loss mask.

The ids are passed over once for the special ones, the mask once for its edges, and the supervised ids
once for what they hold. All else is arithmetic on the few positions that those passes find.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dflash_guard.contract.model import Family
from dflash_guard.facts.token_arrays import (
    Bools,
    Ints,
    Lists,
    Mask,
    column_problem,
    each_range,
    first_by_row,
    merge,
    read_lists,
    read_mask,
    rows_of,
)
from dflash_guard.facts.token_turns import (
    Ids,
    Supervision,
    Turns,
    find_supervision,
    find_turns,
    look_up,
    read_ids,
)

__all__ = ["TOKEN_COLUMNS", "column_problem", "scan_tokens"]

_FIELDS: dict[str, pa.DataType] = {
    "tokens": pa.int32(),
    "mask_tokens": pa.int32(),
    "declared_len": pa.int64(),
    "lengths_agree": pa.bool_(),
    "bad_mask_at": pa.int32(),
    "bad_mask_kind": pa.string(),
    "bad_mask_value": pa.int64(),
    "loss_tokens": pa.int32(),
    "spans": pa.int32(),
    "turns": pa.int32(),
    "last_turn_at": pa.int32(),
    "response_at": pa.int32(),
    "response_tokens": pa.int32(),
    "response_digest": pa.int64(),
    "answer_tokens": pa.int32(),
    "thinking_open": pa.bool_(),
    "thinking_closed": pa.bool_(),
    "thinking_tokens": pa.int32(),
    "thinking_turns": pa.int32(),
    "think_token_at": pa.int32(),
    "empty_thinking_at": pa.int32(),
    "unclosed_thinking_at": pa.int32(),
    "clipped": pa.bool_(),
    "unsupervised_end_at": pa.int32(),
    "prompt_supervised_at": pa.int32(),
    "boundary_thinking_at": pa.int32(),
    "boundary_off_at": pa.int32(),
    "padding_supervised_at": pa.int32(),
    "duplicate_end_at": pa.int32(),
    "duplicate_begin": pa.bool_(),
    "bad_id_at": pa.int32(),
    "bad_id": pa.int64(),
    "mask_token_at": pa.int32(),
}
_NULLABLE = {"declared_len", "bad_mask_value", "response_digest", "bad_id"}

TOKEN_COLUMNS = pa.schema([pa.field(name, kind, name in _NULLABLE) for name, kind in _FIELDS.items()])
"""The columns of `scan_tokens`. Positions (`…_at`) are indexes in the row, -1 where there is nothing to point at.

Of every row:
    tokens, mask_tokens, declared_len: Lengths of ids and mask (0 for a null), and `seq_len` (null if absent).
    lengths_agree: Whether these are equal.
    bad_mask_at, bad_mask_kind, bad_mask_value: The first mask value that cannot stand: "null"; "value", which is
        not 0 or 1; "label", which is not the id at its place. The kind is "" where all is well.
    loss_tokens: Supervised tokens, as they stand in the mask.
    turns: Begin-of-turn tokens.
    last_turn_at: Where the last assistant turn begins (0 in a row without any header).
    duplicate_begin: Whether two begin tokens open the row.
    bad_id_at, bad_id: The first id outside the vocabulary; the id is null where it is a null.
    mask_token_at: The drafter's mask token.

Of rows whose lengths agree (else -1, false or null):
    spans: Supervised runs; a newline behind an end-of-turn token neither makes nor splits one.
    response_at, response_tokens, response_digest: The supervised ids of the last assistant turn, without that
        newline: the first one, how many, and a 64-bit digest (null where there is none).
    answer_tokens: Of these, behind the thinking and neither blank nor an end token. -1 where the thinking is not
        closed: there is no answer to count.
    thinking_open, thinking_closed: Whether the thinking opens and closes in the supervised part of that turn. A
        think-open right before the supervised part counts as inside it, here and in the columns below.
    thinking_tokens: Tokens in its thinking, blank ones apart.
    thinking_turns: Assistant turns with such tokens.
    think_token_at: The first think token of the supervised part.
    empty_thinking_at: A think-open with nothing but blank tokens up to its think-close.
    unclosed_thinking_at: A think-open without a think-close behind it in its turn.
    clipped: Whether the last span runs to the row's end, or to trailing padding, in a turn that does not end.
    unsupervised_end_at: The end-of-turn token of an assistant turn that is supervised but for it.
    prompt_supervised_at: A supervised token in a turn of another role, or in a header.
    boundary_thinking_at, boundary_off_at: A span that begins where it must not, by serving mode.
    padding_supervised_at: A supervised token behind the end of the last turn.
    duplicate_end_at: The second of two supervised end tokens in a row.
"""

_CHUNK = 1 << 20  # ids in one go: few enough for the processor's cache, so many that NumPy's calls cost nothing
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_HALF, _THIRD = np.uint64(32), np.uint64(29)


def scan_tokens(batch: pa.RecordBatch, family: Family) -> pa.RecordBatch:
    """Reads the facts of tokenized rows.

    Args:
        batch: Rows with `input_ids`, with `loss_mask` or else `labels`, and perhaps with `seq_len`; lists of any
            kind, integers of any width, booleans as a mask, nulls anywhere.
        family: What the ids mean.

    Returns:
        One row for each, in order, with `TOKEN_COLUMNS`.

    Raises:
        ValueError: A column is absent, or its type cannot be read; the message names it.
    """
    names = batch.schema.names
    mask = next((name for name in ("loss_mask", "labels") if name in names), None)
    if "input_ids" not in names or mask is None:
        missing = "loss_mask or labels" if "input_ids" in names else "input_ids"
        raise ValueError(f"no column {missing}")
    for name in ("input_ids", mask, "seq_len"):
        if name in names and (problem := column_problem(batch.schema.field(name))):
            raise ValueError(problem)
    lists = read_lists(batch.schema.field("input_ids"), batch.column("input_ids"))
    edges = _cut(lists)
    if len(edges) > 2:
        parts = [batch.slice(start, end - start) for start, end in pairwise(edges)]
        return pa.concat_batches([_scan(part, mask, family) for part in parts])
    return _scan(batch, mask, family)


def _cut(lists: Lists) -> list[int]:
    """Row numbers that cut a batch into parts of about `_CHUNK` ids."""
    rows = len(lists.starts)
    total = int(lists.ends[-1]) if rows else 0
    inner = np.unique(np.searchsorted(lists.starts, np.arange(_CHUNK, total, _CHUNK)))
    return [0, *(int(row) for row in inner if 0 < row < rows), rows]


def _scan(batch: pa.RecordBatch, mask_name: str, family: Family) -> pa.RecordBatch:
    """`scan_tokens` for a batch of moderate size."""
    count = batch.num_rows
    ids = read_ids(read_lists(batch.schema.field("input_ids"), batch.column("input_ids")), family)
    mask = read_mask(batch.schema.field(mask_name), batch.column(mask_name))
    turns = find_turns(ids)
    agree = ids.lists.lengths == mask.lists.lengths
    declared = pa.nulls(count, pa.int64())
    if "seq_len" in batch.schema.names:
        declared = batch.column("seq_len").cast(pa.int64(), safe=False)
        unknown = declared.is_null().to_numpy(zero_copy_only=False)
        agree &= unknown | (declared.fill_null(-1).to_numpy() == ids.lists.lengths)

    kept = agree[mask.rows]
    rows, starts, ends = mask.rows[kept], mask.starts[kept], mask.ends[kept]
    shift = ids.lists.starts[rows] - mask.lists.starts[rows]
    supervision = find_supervision(ids, rows, starts + shift, ends + shift)
    unlike = _unlike_labels(ids, mask, each_range(starts, ends), shift.repeat(ends - starts)) if mask.labels else None

    judged = _boundary_facts(ids, turns, supervision) | _thinking_facts(ids, turns, supervision)
    digest = pa.array(judged.pop("response_digest"), mask=~agree | (judged["response_tokens"] == 0))
    for name, values in judged.items():
        judged[name] = np.where(agree, values, False if values.dtype == np.bool_ else -1)
    facts: dict[str, Any] = {
        "tokens": ids.lists.lengths,
        "mask_tokens": mask.lists.lengths,
        "declared_len": declared,
        "lengths_agree": agree,
        "loss_tokens": np.bincount(mask.rows, mask.ends - mask.starts, count),
        **_bad_mask(mask, unlike),
        **_id_facts(ids, turns),
        **judged,
        "response_digest": digest,
    }
    columns = [
        column if isinstance(column := facts[name], pa.Array) else pa.array(column.astype(kind.to_pandas_dtype()))
        for name, kind in _FIELDS.items()
    ]
    return pa.RecordBatch.from_arrays(columns, schema=TOKEN_COLUMNS)


def _unlike_labels(ids: Ids, mask: Mask, labels_at: Ints, shift: Ints) -> Ints:
    """Positions of supervised labels that are not the id at their place."""
    unlike: Bools = mask.lists.values[labels_at] != ids.lists.values[labels_at + shift]
    if ids.lists.nulls is not None:
        unlike |= ids.lists.nulls[labels_at + shift]
    return labels_at[unlike]


def _bad_mask(mask: Mask, unlike: Ints | None) -> dict[str, Any]:
    lists = mask.lists
    count = len(lists.starts)
    bad_at = mask.bad_at if unlike is None else np.sort(np.concatenate((mask.bad_at, unlike)))
    rows, at = rows_of(bad_at, lists.starts, lists.ends)
    first = first_by_row(rows, at, count)
    value = lists.values.take(first, mode="clip")
    null = np.zeros(count, np.bool_) if lists.nulls is None else lists.nulls.take(first, mode="clip")
    kind = np.where(first < 0, 0, np.where(null, 1, 2))
    return {
        "bad_mask_at": np.where(first < 0, -1, first - lists.starts),
        "bad_mask_kind": pa.array(["", "null", "label" if mask.labels else "value"]).take(pa.array(kind)),
        "bad_mask_value": pa.array(value.astype(np.int64), mask=kind < 2),
    }


def _id_facts(ids: Ids, turns: Turns) -> dict[str, Any]:
    family, lists = ids.family, ids.lists
    count = len(lists.starts)
    outside = (ids.special_ids < 0) | (ids.special_ids >= family.vocab_size)
    bad_at = first_by_row(ids.special_rows[outside], ids.special_at[outside], count)
    no_id = bad_at < 0
    if lists.nulls is not None:
        no_id |= lists.nulls.take(bad_at, mode="clip")
    mask_token_at = first_by_row(*ids.special(family.mask_token), count)
    last = turns.last(count, assistant=True)
    begins = [np.isin(ids.at(lists.starts + place), family.begin_ids) for place in (0, 1)]
    return {
        "turns": np.bincount(ids.special(family.begin_turn)[0], minlength=count),
        "last_turn_at": _in_row(np.where(last < 0, -1, _take(turns.starts, last)), lists.starts),
        "duplicate_begin": begins[0] & begins[1] & (lists.lengths > 1),
        "bad_id_at": _in_row(bad_at, lists.starts),
        "bad_id": pa.array(ids.at(bad_at).astype(np.int64), mask=no_id),
        "mask_token_at": _in_row(mask_token_at, lists.starts),
    }


def _boundary_facts(ids: Ids, turns: Turns, supervision: Supervision) -> dict[str, npt.NDArray[Any]]:
    """Where spans begin and end, against where turns do."""
    row_starts, row_ends = ids.lists.starts, ids.lists.ends
    count = len(row_starts)
    last = turns.last(count)
    closed = np.where(last < 0, -1, _take(turns.closed_at, last))
    trailing = _trailing_padding(ids)
    padding = np.where(closed < 0, trailing, closed + 1)

    spans = np.flatnonzero(supervision.opens_span)
    span_rows, span_at = supervision.rows[spans], supervision.starts[spans]
    span_turns = turns.of(span_at)
    misplaced = {
        name: (span_at < padding[span_rows]) & ~_begins_right(ids, turns, span_at, span_turns, prompt)
        for name, prompt in (
            ("boundary_thinking_at", ids.family.prompt_thinking),
            ("boundary_off_at", ids.family.prompt_off),
        )
    }

    not_taught = np.where(turns.assistant, turns.bodies, turns.body_ends)
    in_prompt = supervision.first_from(turns.starts, not_taught)
    asked = in_prompt >= 0
    skipped = np.flatnonzero(turns.assistant & (turns.closed_at >= 0))
    skipped = skipped[supervision.first_from(turns.starts[skipped], turns.closed_at[skipped]) >= 0]
    skipped = skipped[~supervision.covers(turns.closed_at[skipped])]

    end_rows, end_at = ids.special(ids.family.end_turn, ids.family.end_text)
    taught = supervision.covers(end_at)
    gap = np.diff(end_at)
    over_newline = (ids.at(end_at[:-1]) == ids.family.end_turn) & (ids.at(end_at[:-1] + 1) == ids.family.newline)
    twice = taught[1:] & taught[:-1] & (end_rows[1:] == end_rows[:-1]) & ((gap == 1) | ((gap == 2) & over_newline))

    positions = {
        "unsupervised_end_at": first_by_row(turns.rows[skipped], turns.closed_at[skipped], count),
        "prompt_supervised_at": first_by_row(turns.rows[asked], in_prompt[asked], count),
        "padding_supervised_at": supervision.first_from(padding, row_ends),
        "duplicate_end_at": first_by_row(end_rows[1:][twice], end_at[1:][twice], count),
        **{name: first_by_row(span_rows[bad], span_at[bad], count) for name, bad in misplaced.items()},
    }
    return {
        **{name: _in_row(at, row_starts) for name, at in positions.items()},
        "spans": np.bincount(span_rows, minlength=count),
        "clipped": _clipped(ids, turns, supervision, closed, trailing),
    }


def _begins_right(ids: Ids, turns: Turns, at: Ints, turn: Ints, prompt: tuple[int, ...]) -> Bools:
    """Whether spans begin behind the assistant's header, or behind what the generation prompt adds to it."""
    text = turns.bodies[turn]
    behind_prompt = np.flatnonzero(at - text == len(prompt))
    for place, token in enumerate(prompt):
        there = text[behind_prompt] + place
        like = ids.at(there) == token
        if ids.blank[token]:  # a newline may have merged with those behind it
            like |= ids.is_blank(there)
        behind_prompt = behind_prompt[like]
    right: Bools = at == text
    right[behind_prompt] = True
    right &= turns.assistant[turn] & turns.headed[turn]
    return right


def _trailing_padding(ids: Ids) -> Ints:
    """Where each row's trailing run of end-of-text tokens begins; the row's end where it has none."""
    row_ends = ids.lists.ends
    rows, at = ids.special(ids.family.end_text)
    begins = np.ones(len(at), np.bool_)
    begins[1:] = (np.diff(at) != 1) | (rows[1:] != rows[:-1])
    first = at[np.maximum.accumulate(np.where(begins, np.arange(len(at)), 0))]
    final = at == row_ends[rows] - 1
    out = row_ends.copy()
    out[rows[final]] = first[final]
    return out


def _clipped(ids: Ids, turns: Turns, supervision: Supervision, closed: Ints, trailing: Ints) -> Bools:
    """Whether the last span of a row is all that there is of a turn without an end, padding apart."""
    row_ends = ids.lists.ends
    count = len(row_ends)
    end = np.full(count, -1, np.int64)
    final = np.concatenate(
        (supervision.rows[1:] != supervision.rows[:-1], np.ones(min(1, len(supervision.rows)), bool))
    )
    end[supervision.rows[final]] = supervision.ends[final]
    candidates = np.flatnonzero((end > 0) & (closed < 0))
    last_turn = turns.last(count)[candidates]
    candidates = candidates[turns.starts[last_turn] < end[candidates]]
    clipped = np.zeros(count, np.bool_)
    clipped[candidates] = trailing[candidates] <= end[candidates]

    # A tokenizer may pad with a token of its own, which no family file knows: one id, over and over.
    rest = candidates[~clipped[candidates] & (row_ends[candidates] - end[candidates] > 1)]
    rest = rest[ids.at(end[rest]) == ids.at(row_ends[rest] - 1)]
    lengths = row_ends[rest] - 1 - end[rest]
    at = each_range(end[rest], row_ends[rest] - 1)
    changes = np.repeat(np.arange(len(rest)), lengths)[ids.at(at) != ids.at(at + 1)]
    clipped[rest] = np.bincount(changes, minlength=len(rest)) == 0
    return clipped


def _thinking_facts(ids: Ids, turns: Turns, supervision: Supervision) -> dict[str, npt.NDArray[Any]]:
    """What the supervised ids hold: thinking, answer, and the whole response."""
    family, row_starts = ids.family, ids.lists.starts
    count = len(row_starts)
    supervised = ids.at(each_range(supervision.starts, supervision.ends))
    void = np.flatnonzero(look_up(ids.void, supervised))

    def content_below(positions: Ints) -> Ints:
        below = supervision.count_below(positions)
        return below - np.searchsorted(void, below)

    at = _think_tokens(ids, supervision)
    turn = turns.of(at)
    think_token_at = first_by_row(turns.rows[turn], at, count)
    inside = (at >= turns.bodies[turn]) & (at < turns.body_ends[turn])
    at, turn = at[inside], turn[inside]
    opens = ids.at(at) == family.think_open
    events = np.arange(len(at))
    is_last = np.ones(len(at), np.bool_)
    is_last[:-1] = turn[1:] != turn[:-1]
    is_first = np.roll(is_last, 1)
    following = np.where(is_last, turns.body_ends[turn], np.roll(at, -1))
    content = content_below(following) - content_below(at + 1)
    thinking = np.where(opens, content, 0)
    unopened = np.flatnonzero(is_first & ~opens)  # what stands before a think-close is thinking
    thinking[unopened] += content_below(at[unopened]) - content_below(turns.bodies[turn[unopened]])

    # By turn: its thinking, and its last think-open and think-close as indexes into `at`.
    first = np.flatnonzero(is_first)
    turn_thinking, turn_open, turn_close = (np.full(len(turns.rows), empty, np.int64) for empty in (0, -1, -1))
    if len(at):
        with_think = turn[first]
        turn_thinking[with_think] = np.add.reduceat(thinking, first)
        turn_open[with_think] = np.maximum.reduceat(np.where(opens, events, -1), first)
        turn_close[with_think] = np.maximum.reduceat(np.where(opens, -1, events), first)
    empty = np.flatnonzero(opens & ~is_last & ~np.roll(opens, -1) & (content == 0))
    unclosed = np.flatnonzero(opens & (events > turn_close[turn]))

    response = turns.last(count, assistant=True)
    there = response >= 0
    begin, end = (np.where(there, _take(edge, response), row_starts) for edge in (turns.bodies, turns.body_ends))
    last_open, last_close = (np.where(there, _take(by_turn, response), -1) for by_turn in (turn_open, turn_close))
    behind = np.where(last_close < 0, begin, _take(at, last_close) + 1)
    answer = content_below(end) - content_below(behind)
    low, high = supervision.count_below(begin), supervision.count_below(end)
    thinking_turns = turns.rows[turns.assistant & (turn_thinking > 0)]
    return {
        "response_at": _in_row(supervision.first_from(begin, end), row_starts),
        "response_tokens": high - low,
        "response_digest": _digests(supervised, low, high),
        "answer_tokens": np.where(last_open > last_close, -1, answer),
        "thinking_open": last_open >= 0,
        "thinking_closed": last_close >= 0,
        "thinking_tokens": np.where(there, _take(turn_thinking, response), 0),
        "thinking_turns": np.bincount(thinking_turns, minlength=count),
        "think_token_at": _in_row(think_token_at, row_starts),
        "empty_thinking_at": _in_row(first_by_row(turns.rows[turn[empty]], at[empty], count), row_starts),
        "unclosed_thinking_at": _in_row(first_by_row(turns.rows[turn[unclosed]], at[unclosed], count), row_starts),
    }


def _think_tokens(ids: Ids, supervision: Supervision) -> Ints:
    """Positions of the supervised think tokens, and of the think-opens that stand right before a span."""
    family = ids.family
    at = ids.special(family.think_open, family.think_close)[1]
    at = at[supervision.covers(at)]
    spans = np.flatnonzero(supervision.opens_span)
    row_starts, before = ids.lists.starts[supervision.rows[spans]], supervision.starts[spans] - 1
    before = before - ((before > row_starts) & ids.is_blank(before))  # a newline may follow the think-open
    prompted = before[(before >= row_starts) & (ids.at(before) == family.think_open)]
    return merge(at, prompted[~supervision.covers(prompted)])


def _digests(values: npt.NDArray[Any], low: Ints, high: Ints) -> Ints:
    """A 64-bit digest of each interval of ids: a sum of mixed (place, id) pairs, mixed again with the length.

    The mixing is that of splitmix64, over 64-bit numbers that wrap around: the same on every machine.
    """
    lengths = high - low
    if lengths.sum() != len(values):
        values = values[each_range(low, high)]
    pairs = each_range(np.zeros_like(lengths), lengths).view(np.uint64)
    pairs <<= _HALF
    pairs += values.astype(np.int64).view(np.uint64)
    pairs *= _MIX[0]
    pairs ^= pairs >> _HALF
    pairs *= _MIX[1]
    pairs ^= pairs >> _THIRD
    digests = lengths.astype(np.uint64)
    filled = np.flatnonzero(lengths)
    if len(filled):
        digests[filled] += np.add.reduceat(pairs, (np.cumsum(lengths) - lengths)[filled])
    digests *= _MIX[2]
    digests ^= digests >> _HALF
    return digests.view(np.int64)


def _take(values: npt.NDArray[Any], index: Ints) -> npt.NDArray[Any]:
    """Values at an index; where that is out of range, whatever value."""
    return values.take(index, mode="clip") if len(values) else np.zeros(len(index), values.dtype)


def _in_row(at: Ints, starts: Ints) -> Ints:
    """Positions counted from their row's start; -1 stays."""
    return np.where(at < 0, -1, at - starts)
