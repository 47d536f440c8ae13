"""What stands where in rows of token ids: the turns that they spell, and the runs that a mask supervises.

All arrays ascend by position in one flat array of ids; `rows` says which row an entry is of.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dflash_guard.contract.model import Family
from dflash_guard.facts.token_arrays import Bools, Ints, Lists, merge, rows_of

__all__ = ["Ids", "Supervision", "Turns", "find_supervision", "find_turns", "look_up", "read_ids"]


@dataclass(frozen=True, slots=True)
class Ids:
    """The token ids of a batch, and where its special ones stand.

    Attributes:
        family: What the ids mean.
        lists: The ids.
        blank: Truth table by id, one entry longer than the vocabulary: white space only.
        void: The same: no content, which is blank ids, ends of turns and texts, and think tokens.
        special_ids, special_rows, special_at: The ids from the lowest special one up, and those below 0.
    """

    family: Family
    lists: Lists
    blank: Bools
    void: Bools
    special_ids: npt.NDArray[Any]
    special_rows: Ints
    special_at: Ints

    def at(self, positions: Ints) -> npt.NDArray[Any]:
        """The ids at positions; those outside the array read its last one."""
        return self.lists.values.take(positions, mode="clip")

    def is_blank(self, positions: Ints) -> Bools:
        """Whether the ids at positions are white space only."""
        return look_up(self.blank, self.at(positions))

    def special(self, *ids: int) -> tuple[Ints, Ints]:
        """Rows and positions of these special ids."""
        found = np.flatnonzero(np.logical_or.reduce([self.special_ids == wanted for wanted in ids]))
        return self.special_rows[found], self.special_at[found]


@dataclass(frozen=True, slots=True)
class Turns:
    """Every turn. What stands in a row before its first begin-of-turn token is a turn without a header.

    Attributes:
        rows: The turn's row.
        starts, ends: From its begin-of-turn token to the next one, or to the row's end.
        bodies: Where its text begins, behind the header and its newline.
        closed_at: Its first end-of-turn token, -1 where it has none.
        body_ends: Behind that token; `ends` where it has none.
        assistant: Whether the header names the assistant, or there is no header.
        headed: Whether a header that names a role, newline included, is there.
    """

    rows: Ints
    starts: Ints
    ends: Ints
    bodies: Ints
    closed_at: Ints
    body_ends: Ints
    assistant: Bools
    headed: Bools

    def of(self, positions: Ints) -> Ints:
        """Index of the turn that holds each position."""
        return np.searchsorted(self.starts, positions, "right") - 1

    def last(self, count: int, *, assistant: bool = False) -> Ints:
        """Index of each row's last (assistant) turn, -1 where there is none."""
        out = np.full(count, -1, np.int64)
        turns = np.flatnonzero(self.assistant) if assistant else np.arange(len(self.rows))
        rows = self.rows[turns]
        last = np.concatenate((rows[1:] != rows[:-1], np.ones(min(1, len(rows)), np.bool_)))
        out[rows[last]] = turns[last]
        return out


@dataclass(frozen=True, slots=True)
class Supervision:
    """What is supervised in the rows where ids and mask can be laid over each other.

    A newline behind an end-of-turn token is neutral: it is in no run.

    Attributes:
        rows, starts, ends: The runs of supervised tokens.
        opens_span: Whether a run opens a span, which it does not behind a neutral newline alone.
        before: How many tokens stand in all runs before this one.
    """

    rows: Ints
    starts: Ints
    ends: Ints
    opens_span: Bools
    before: Ints

    def count_below(self, positions: Ints) -> Ints:
        """How many supervised tokens stand below each position."""
        if not len(self.rows):
            return np.zeros_like(positions)
        run = np.searchsorted(self.starts, positions, "right") - 1
        inside = np.minimum(positions, self.ends.take(run, mode="clip")) - self.starts.take(run, mode="clip")
        return np.where(run < 0, 0, self.before.take(run, mode="clip") + inside)

    def covers(self, positions: Ints) -> Bools:
        """Whether each position is in a run."""
        return _covers(self.starts, self.ends, positions)

    def first_from(self, starts: Ints, ends: Ints) -> Ints:
        """The first supervised position in each interval, -1 where there is none."""
        if not len(self.rows):
            return np.full(len(starts), -1, np.int64)
        run = np.searchsorted(self.ends, starts, "right")
        first = np.maximum(self.starts.take(run, mode="clip"), starts)
        return np.where((run < len(self.rows)) & (first < ends), first, -1)


def look_up(table: Bools, values: npt.NDArray[Any]) -> Bools:
    """Reads a truth table by id; an id outside the vocabulary reads its last entry."""
    found: Bools = table[np.minimum(_unsigned(values), len(table) - 1).astype(np.intp)]
    return found


def read_ids(lists: Lists, family: Family) -> Ids:
    """Makes the one pass over all ids that finds the special ones."""
    if lists.values.dtype not in (np.int32, np.int64):
        lists = Lists(lists.values.astype(np.int32), lists.nulls, lists.starts, lists.ends)
    ends = (family.end_turn, family.end_text)
    think = (family.think_open, family.think_close)
    lowest = min(*ends, *think, family.begin_turn, family.mask_token)
    blank = np.zeros(family.vocab_size + 1, np.bool_)
    blank[list(family.blank)] = True
    void = blank.copy()
    void[[*ends, *think]] = True
    from_lowest = _unsigned(lists.values) >= lowest
    rows, at = rows_of(np.flatnonzero(from_lowest), lists.starts, lists.ends)
    return Ids(family, lists, blank, void, lists.values[at], rows, at)


def find_turns(ids: Ids) -> Turns:
    """Finds every turn of every row."""
    lists, family = ids.lists, ids.family
    begin_rows, begins = ids.special(family.begin_turn)
    bare_rows = np.flatnonzero(lists.lengths > 0)
    bare_rows = bare_rows[ids.at(lists.starts[bare_rows]) != family.begin_turn]
    starts = np.concatenate((begins, lists.starts[bare_rows]))
    order = np.argsort(starts, kind="stable")
    starts, rows = starts[order], np.concatenate((begin_rows, bare_rows))[order]
    bare = order >= len(begins)
    ends = lists.ends[rows]
    ends[:-1] = np.minimum(ends[:-1], starts[1:])

    role_length = np.zeros(len(starts), np.int64)
    assistant = bare.copy()
    for role, tokens in sorted(family.roles.items(), key=lambda item: len(item[1])):
        named = ~bare & (starts + len(tokens) < ends)
        for offset, token in enumerate(tokens, 1):
            named &= ids.at(starts + offset) == token
        role_length[named] = len(tokens)
        assistant[named] = role == "assistant"
    bodies = starts + role_length + ~bare
    headed = (role_length > 0) & (bodies < ends) & ids.is_blank(bodies)
    bodies += headed

    closing = ids.special(family.end_turn)[1]
    closed_at = closing.take(np.searchsorted(closing, starts), mode="clip") if len(closing) else starts - 1
    closed_at = np.where((closed_at >= starts) & (closed_at < ends), closed_at, -1)
    body_ends = np.where(closed_at < 0, ends, closed_at + 1)
    return Turns(rows, starts, ends, bodies, closed_at, body_ends, assistant, headed)


def find_supervision(ids: Ids, rows: Ints, starts: Ints, ends: Ints) -> Supervision:
    """Takes the neutral newlines out of runs that are given by position in the ids."""
    closing_rows, closing = ids.special(ids.family.end_turn)
    neutral = closing + 1
    neutral = neutral[(neutral < ids.lists.ends[closing_rows]) & (ids.at(neutral) == ids.family.newline)]
    neutral = neutral[_covers(starts, ends, neutral)]
    opens_span = np.ones(len(starts), np.bool_)
    if len(neutral):
        run_starts = starts
        starts, ends = merge(starts, neutral + 1), merge(ends, neutral)
        filled = starts < ends
        starts, ends = starts[filled], ends[filled]
        run = np.searchsorted(run_starts, starts, "right") - 1
        rows = rows[run]
        opens_span = np.ones(len(starts), np.bool_)
        opens_span[1:] = (run[1:] != run[:-1]) | (starts[1:] - ends[:-1] != 1)
    return Supervision(rows, starts, ends, opens_span, np.cumsum(ends - starts) - (ends - starts))


def _covers(starts: Ints, ends: Ints, positions: Ints) -> Bools:
    if not len(starts):
        return np.zeros(len(positions), np.bool_)
    run = np.searchsorted(starts, positions, "right") - 1
    return (run >= 0) & (positions < ends.take(run, mode="clip"))


def _unsigned(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Ids as unsigned numbers: those below 0 are then above all others."""
    return values.view(f"u{values.dtype.itemsize}")
