"""Token columns of Arrow as flat NumPy arrays, and the arithmetic of intervals on them.

Positions are indexes in the flat array; a row is the interval from its start to its end there. What
null rows and slices leave between the rows belongs to no row.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "Bools",
    "Ints",
    "Lists",
    "Mask",
    "column_problem",
    "each_range",
    "first_by_row",
    "merge",
    "read_lists",
    "read_mask",
    "rows_of",
]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_NOT_SUPERVISED = -100  # what labels hold where nothing is learnt, as PyTorch's cross entropy has it
_LARGEST = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Lists:
    """A column of lists.

    Attributes:
        values: All elements, one array of any integer type (at least one element, whether or not a
            row has it); -1 in the place of a null.
        nulls: Where an element is null; None where none is.
        starts, ends: Each row's interval in `values`, ascending and disjoint; a null row is empty.
    """

    values: npt.NDArray[Any]
    nulls: Bools | None
    starts: Ints
    ends: Ints

    @property
    def lengths(self) -> Ints:
        """How many elements each row has."""
        return self.ends - self.starts


@dataclass(frozen=True, slots=True)
class Mask:
    """A loss mask, or labels read as one.

    Attributes:
        labels: Whether the values are labels.
        lists: The values as they stand.
        rows, starts, ends: The runs of supervised values.
        bad_at: The values that are null or, in a loss mask, neither 0 nor 1.
    """

    labels: bool
    lists: Lists
    rows: Ints
    starts: Ints
    ends: Ints
    bad_at: Ints


def column_problem(field: pa.Field, column: pa.Array | None = None) -> str | None:
    """Says why a token column cannot be read, or None where it can.

    Args:
        field: The column's field. `seq_len` must hold integers, `loss_mask` lists of integers or
            booleans, every other name lists of integers.
        column: The column itself. With it, lists of nulls are told from empty lists of no type.
    """
    name, kind = field.name, field.type
    if name == "seq_len":
        return None if pa.types.is_integer(kind) else f"{name} is {kind}, not integers"
    wanted = "integers or booleans" if name == "loss_mask" else "integers"
    if not _is_list(kind):
        return f"{name} is {kind}, not lists of {wanted}"
    element = kind.value_type
    if pa.types.is_null(element):
        empty = column is None or not pc.any(pc.greater(pc.list_value_length(column), 0)).as_py()
        return None if empty else f"{name} is {kind}, and its lists hold nothing but nulls"
    if pa.types.is_integer(element) or (name == "loss_mask" and pa.types.is_boolean(element)):
        return None
    return f"{name} is {kind}, not lists of {wanted}"


def read_lists(field: pa.Field, column: pa.Array) -> Lists:
    """Reads a column of lists; no copy is made of integers without nulls.

    Raises:
        ValueError: The column's type cannot be read; the message names it.
    """
    if problem := column_problem(field):
        raise ValueError(problem)
    kind, rows = column.type, len(column)
    null = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):  # rows in any order, overlapping or not
        lengths = column.sizes.to_numpy().astype(np.int64)
        if null is not None:
            lengths[null] = 0
        begins = column.offsets.to_numpy().astype(np.int64)
        elements = column.values.take(pa.array(each_range(begins, begins + lengths)))
        edges = np.concatenate(([0], np.cumsum(lengths)))
    else:
        if pa.types.is_fixed_size_list(kind):
            edges = (np.arange(rows + 1, dtype=np.int64) + column.offset) * kind.list_size
        else:
            edges = column.offsets.to_numpy().astype(np.int64)
        elements = column.values.slice(int(edges[0]), int(edges[-1] - edges[0]))
        edges = edges - edges[0]
    starts, ends = edges[:-1], edges[1:]
    if null is not None:
        ends = np.where(null, starts, ends)
    values, nulls = _integers(elements)
    return Lists(values, nulls, starts, ends)


def read_mask(field: pa.Field, column: pa.Array) -> Mask:
    """Reads a column of `loss_mask` or `labels`, and finds its runs.

    Raises:
        ValueError: The column's type cannot be read; the message names it.
    """
    lists = read_lists(field, column)
    labels = field.name == "labels"
    none = np.zeros(0, np.int64)
    if labels:
        on = lists.values != _NOT_SUPERVISED
        bad_at = none if lists.nulls is None else np.flatnonzero(lists.nulls)
    else:
        unsigned = lists.values.view(f"u{lists.values.dtype.itemsize}")  # a null, being -1, is the largest
        clean = unsigned.max() <= 1
        on = lists.values.view(np.bool_) if clean and unsigned.dtype == np.uint8 else unsigned != 0
        bad_at = none if clean else np.flatnonzero(unsigned > 1)
    if lists.nulls is not None:
        on = on & ~lists.nulls
    return Mask(labels, lists, *_supervised_runs(on, lists), bad_at)


def rows_of(at: Ints, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The rows that hold the ascending positions `at`, and those positions that a row holds."""
    first, last = np.searchsorted(at, starts), np.searchsorted(at, ends)
    counts = last - first
    rows = np.repeat(np.arange(len(starts)), counts)
    return rows, at if len(rows) == len(at) else at[each_range(first, last)]


def each_range(starts: Ints, ends: Ints) -> Ints:
    """All positions of all intervals, one interval after the other."""
    lengths = ends - starts
    before = np.cumsum(lengths) - lengths
    positions = np.repeat(starts - before, lengths)
    positions += np.arange(len(positions))
    return positions


def first_by_row(rows: Ints, values: npt.NDArray[Any], count: int) -> Ints:
    """Each row's first value, -1 where it has none; `rows` ascend."""
    out = np.full(count, -1, np.int64)
    if len(rows):
        first = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
        out[rows[first]] = values[first]
    return out


def merge(one: Ints, other: Ints) -> Ints:
    """Two ascending arrays as one."""
    merged = np.concatenate((one, other))
    merged.sort(kind="stable")
    return merged


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )


def _supervised_runs(on: Bools, lists: Lists) -> tuple[Ints, Ints, Ints]:
    """Rows, starts and ends of the runs of supervised tokens, as they stand in the mask."""
    change = np.flatnonzero(on[1:] != on[:-1]) + 1
    edges = np.concatenate((np.zeros(int(on[0]), np.int64), change, np.full(int(on[-1]), len(on))))
    inner = np.concatenate((lists.starts, lists.ends))
    inner = inner[(inner > 0) & (inner < len(on))]
    cuts = np.unique(inner[on[inner] & on[inner - 1]])
    starts, ends = edges[::2], edges[1::2]
    if len(cuts):
        starts, ends = merge(starts, cuts), merge(ends, cuts)
    rows, kept = rows_of(starts, lists.starts, lists.ends)
    return rows, kept, ends if len(kept) == len(starts) else ends[np.searchsorted(starts, kept)]


def _integers(elements: pa.Array) -> tuple[npt.NDArray[Any], Bools | None]:
    """Elements as signed integers, and where they are null."""
    kind = elements.type
    if not len(elements):
        return np.full(1, -1, np.int32), None
    if pa.types.is_null(kind):
        return np.full(len(elements), -1, np.int32), np.ones(len(elements), np.bool_)
    nulls = None
    if elements.null_count:
        nulls = elements.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_boolean(kind):
        elements = elements.cast(pa.int8())
    if nulls is not None:
        elements = elements.fill_null(0)
    values = _signed(elements.to_numpy(zero_copy_only=False))
    if nulls is not None:
        values = np.where(nulls, values.dtype.type(-1), values)
    return values, nulls


def _signed(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Unsigned integers as signed ones, in place where they fit; the largest of 64 bits become 2**63 - 1."""
    if values.dtype.kind == "i":
        return values
    if values.dtype == np.uint64:
        largest: Ints = np.minimum(values, np.uint64(_LARGEST)).astype(np.int64)
        return largest
    kind = f"i{values.dtype.itemsize}"
    signed: npt.NDArray[Any] = values.view(kind) if values.max() <= np.iinfo(kind).max else values.astype(np.int64)
    return signed
