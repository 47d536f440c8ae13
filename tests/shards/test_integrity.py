"""Files that are cut, damaged, or not what their name says: one clear verdict each, never silence or a traceback."""

import gzip
import hashlib
import io
import json
import os
import pickle
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import zstandard

from dflash_guard.errors import DataNotFoundError, NothingToJudgeError, ShardChangedError, UsageError
from dflash_guard.shards.columnar import FAULT_COLUMN
from dflash_guard.shards.location import find_shards
from dflash_guard.shards.reader import ShardReader

ROWS = [{"id": str(i), "messages": [{"role": "user", "content": f"Question {i}? é"}]} for i in range(6)]
LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()
TABLE = pa.table({"input_ids": [[1, 2, 3], [4, 5], [6]], "loss_mask": [[0, 1, 1], [0, 1], [1]], "id": ["a", "b", "c"]})


def packed(data):
    return gzip.compress(data, mtime=0)  # equal in every worker, or they collect other tests


def parquet(table=TABLE):
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def arrow_file(table=TABLE):
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def arrow_stream(table=TABLE):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def zstd(data=LINES):
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


SKIPPABLE = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"12345"
WHOLE = {
    "x.jsonl.gz": packed(LINES),
    "x.jsonl.zst": zstd(),
    "x.parquet": parquet(),
    "x.arrow": arrow_file(),
    "stream.arrow": arrow_stream(),
    "array.json": json.dumps(ROWS).encode(),
}


def read(path):
    """Rows, faults and seal of one file."""
    (shard,) = find_shards([path]).shards
    with ShardReader(shard) as reader:
        batches = list(reader)
    return sum(b.rows.num_rows for b in batches), {f.rule for f in reader.seal.faults}, reader.seal


def row_faults(path):
    """The fault of each text row of one file."""
    (shard,) = find_shards([path]).shards
    with ShardReader(shard) as reader:
        return [fault for b in reader if b.kind == "text" for fault in b.rows["fault"].to_pylist()]


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_file_is_read_whole_and_hashed(tmp_path, name):
    (tmp_path / name).write_bytes(WHOLE[name])
    rows, faults, seal = read(tmp_path / name)
    assert rows == seal.rows == (TABLE.num_rows if name.endswith(("parquet", "arrow")) else len(ROWS))
    assert faults == set()
    assert seal.sha256 == hashlib.sha256(WHOLE[name]).hexdigest()
    assert seal.size == len(WHOLE[name])


@pytest.mark.parametrize("name", WHOLE)
def test_cut_at_every_byte_it_is_never_taken_for_whole(tmp_path, name):
    whole, path = WHOLE[name], tmp_path / name
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        rows, faults, seal = read(path)
        # A few bytes that are not even a magic number are a line of text, and no JSON.
        assert faults & {"truncated-shard", "unreadable-shard", "empty-shard"} or row_faults(path) == [
            "malformed-row"
        ], size
        assert "empty-shard" not in faults or size == 0, size
        assert rows <= seal.rows
        assert seal.sha256 == hashlib.sha256(whole[:size]).hexdigest()


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.jsonl.zst"])
def test_a_flipped_byte_in_a_compressed_file_never_passes_as_other_rows(tmp_path, name):
    whole, path = WHOLE[name], tmp_path / name
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 0x40
        path.write_bytes(damaged)
        (shard,) = find_shards([path]).shards
        with ShardReader(shard) as reader:
            texts = [t for batch in reader for t in batch.rows["text"].to_pylist()]
        if not reader.seal.faults and not any(row_faults(path)):
            assert [json.loads(t) for t in texts] == ROWS, at  # a byte that means nothing, such as gzip's time stamp


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "stream.arrow"])
def test_a_flipped_byte_in_a_columnar_file_is_no_traceback(tmp_path, name):
    whole, path = WHOLE[name], tmp_path / name
    for at in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        path.write_bytes(damaged)
        read(path)


@pytest.mark.parametrize(
    ("content", "rows", "faults"),
    [
        (packed(LINES) + packed(LINES), 12, set()),
        (packed(LINES) + b"\0" * 512, 6, set()),
        (packed(LINES) + b"\0\0garbage", 6, {"unreadable-shard"}),
        (packed(LINES) + packed(b""), 6, set()),
        (zstd() + zstd(), 12, set()),
        (SKIPPABLE + zstd() + SKIPPABLE + zstd() + SKIPPABLE, 12, set()),
        (zstd() + b"\0" * 100, 6, set()),
        (zstd() + b"garbage that is no frame", 6, {"unreadable-shard"}),
        (zstd()[:-2], None, {"truncated-shard"}),
        (packed(b""), 0, {"empty-shard"}),
        (packed(parquet()), 0, {"unreadable-shard"}),
        (arrow_stream()[:-8], None, {"truncated-shard"}),
        (arrow_stream() + b"\0" * 16, 3, set()),
        (arrow_stream() + b"more", 3, {"unreadable-shard"}),
        (parquet(TABLE.slice(0, 0)), 0, {"empty-shard"}),
        (arrow_stream(TABLE.slice(0, 0)), 0, {"empty-shard"}),
        (b"", 0, {"empty-shard"}),
        (b" \n\r\n", 0, {"empty-shard"}),
        (b"[]", 0, {"empty-shard"}),
        ("{}\n".encode("utf-16"), 0, {"unreadable-shard"}),
        (LINES.decode().encode("utf-16-le"), 0, {"unreadable-shard"}),
        (LINES.decode().encode("utf-32"), 0, {"unreadable-shard"}),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", 0, {"unfetched-shard"}),
        (b"<!DOCTYPE html>\n<html></html>\n", 0, {"unfetched-shard"}),
        (b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code></Error>", 0, {"unfetched-shard"}),
        (b'{\n  "error": {"message": "no", "code": 403}\n}\n', 0, {"unfetched-shard"}),
        (b'{"messages": [], "error": null}\n', 1, set()),
        (pickle.dumps({"a": 1}), 0, {"unreadable-shard"}),
        (b"PAR1 and nothing that is Parquet PAR1", 0, {"unreadable-shard"}),
        (b"PARE" + bytes(20), 0, {"unreadable-shard"}),
        (b"\xef\xbb\xbf" + LINES, 6, set()),
    ],
    ids=lambda value: f"{len(value)}-bytes" if isinstance(value, bytes) else "",
)
def test_each_kind_of_content_has_its_verdict(tmp_path, content, rows, faults):
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    found, said, seal = read(path)
    assert said == faults
    assert rows is None or found == rows
    assert seal.size == len(content)


def test_zero_bytes_under_a_binary_name_are_broken(tmp_path):
    for name in ("x.parquet", "x.arrow", "x.jsonl.gz", "x.zst"):
        (tmp_path / name).write_bytes(b"")
        assert read(tmp_path / name)[1] == {"unreadable-shard"}


def test_zip_archives_are_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.jsonl", "w") as archive:
        archive.writestr("a.jsonl", LINES)
    _, faults, seal = read(tmp_path / "x.jsonl")
    assert faults == {"unreadable-shard"}
    assert "zip" in seal.faults[0].detail


def test_text_that_is_no_utf8_in_columns_names_its_row(tmp_path):
    bad = pa.array([b"fine", b"caf\xe9", b"ok"], pa.binary()).view(pa.string())
    nested = pa.StructArray.from_arrays([bad], ["content"])
    table = pa.table({"id": pa.array(["a", "b", "c"]), "messages": nested})
    (tmp_path / "x.arrow").write_bytes(arrow_stream(table))
    (shard,) = find_shards([tmp_path / "x.arrow"]).shards
    with ShardReader(shard) as reader:
        (batch,) = list(reader)
    assert batch.rows[FAULT_COLUMN].to_pylist() == [None, "messages", None]
    assert batch.rows["messages"].to_pylist()[1] is None


def test_a_row_group_of_any_size_comes_in_bounded_batches(tmp_path):
    rows = 40_000
    ids = pa.array(np.arange(rows * 100, dtype=np.int32))
    offsets = pa.array(np.arange(0, rows * 100 + 1, 100, dtype=np.int32))
    table = pa.table({"input_ids": pa.ListArray.from_arrays(offsets, ids)})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=rows, compression="none")
    (shard,) = find_shards([tmp_path / "x.parquet"]).shards
    with ShardReader(shard, ["input_ids"]) as reader:
        sizes = [(b.first_row, b.rows.num_rows, b.rows.nbytes) for b in reader]
    assert sum(n for _, n, _ in sizes) == rows
    assert max(nbytes for *_, nbytes in sizes) < 48 << 20
    assert [first for first, *_ in sizes] == np.cumsum([0, *(n for _, n, _ in sizes)])[:-1].tolist()


def test_small_batches_are_joined_and_only_wanted_columns_come(tmp_path):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, TABLE.schema) as writer:
        for _ in range(100):
            writer.write_table(TABLE)
    (tmp_path / "x.arrow").write_bytes(sink.getvalue())
    (shard,) = find_shards([tmp_path / "x.arrow"]).shards
    with ShardReader(shard, ["input_ids", "Loss_Mask"]) as reader:
        (batch,) = list(reader)
    assert batch.rows.schema.names == ["input_ids"]
    assert batch.rows.num_rows == 300


@pytest.mark.parametrize("change", ["append", "cut", "touch", "replace"])
def test_a_shard_that_changes_after_it_was_listed_is_refused(tmp_path, change):
    path = tmp_path / "x.jsonl"
    path.write_bytes(LINES)
    (shard,) = find_shards([path]).shards
    if change == "append":
        path.write_bytes(LINES + LINES)
    elif change == "cut":
        path.write_bytes(LINES[:40])
    elif change == "touch":
        os.utime(path, ns=(1, 1))
    else:
        (tmp_path / "y").write_bytes(LINES)
        (tmp_path / "y").replace(path)
    with ShardReader(shard) as reader, pytest.raises(ShardChangedError, match=r"x\.jsonl changed"):
        list(reader)


def test_leaving_early_leaves_nothing_behind(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(LINES * 50_000)
    (shard,) = find_shards([path]).shards
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with ShardReader(shard) as reader:
            next(iter(reader))
    assert len(os.listdir("/proc/self/fd")) == before


def test_lines_are_counted_over_block_borders(tmp_path, monkeypatch):
    monkeypatch.setattr("dflash_guard.shards.reader._BLOCK", 64)
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\n" + LINES.replace(b"\n", b"\r\n\n") + LINES[:-1])
    (shard,) = find_shards([path]).shards
    with ShardReader(shard) as reader:
        batches = list(reader)
    lines = [line for b in batches for line in b.rows["line"].to_pylist()]
    assert lines == [2, 4, 6, 8, 10, 12, 14, 15, 16, 17, 18, 19]
    assert [json.loads(t) for b in batches for t in b.rows["text"].to_pylist()] == ROWS + ROWS
    assert [b.first_row for b in batches] == np.cumsum([0, *(b.rows.num_rows for b in batches)])[:-1].tolist()


def test_a_line_of_64_mib_is_one_row(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"id": "' + b"x" * (64 << 20) + b'"}\n' + LINES)
    assert read(path)[:2] == (7, set())


def test_what_a_folder_holds(tmp_path):
    for name in ("b.jsonl", "a.jsonl", "sub/c.jsonl", "odd-name", "star*.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(LINES)
    for name in (
        "README.md",
        "_SUCCESS",
        ".hidden.jsonl",
        "x.tmp",
        "state.json",
        "notes.txt",
        "__guard__/facts.parquet",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"text")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "nowhere")
    (tmp_path / "circle").symlink_to(tmp_path)
    listing = find_shards([tmp_path])
    assert [s.name for s in listing.shards] == ["a.jsonl", "b.jsonl", "odd-name", "star*.jsonl", "sub/c.jsonl"]
    left = {each.name: each.why for each in listing.left_out}
    assert set(left) == {"README.md", "_SUCCESS", ".hidden.jsonl", "x.tmp", "state.json", "notes.txt", "link.jsonl"}
    assert all(left.values())
    assert [s.name for s in find_shards([str(tmp_path / "star*.jsonl")]).shards] == ["star*.jsonl"]
    assert [s.name for s in find_shards([str(tmp_path / "[ab].jsonl")]).shards] == ["a.jsonl", "b.jsonl"]
    assert len(find_shards([tmp_path, tmp_path / "a.jsonl"]).shards) == 5


def test_shards_of_one_name_are_told_apart(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.jsonl").write_bytes(LINES + folder.encode())
    names = [s.name for s in find_shards([tmp_path / "one", tmp_path / "two"]).shards]
    assert len(set(names)) == 2
    assert all(name.endswith("/a.jsonl") for name in names)
    names = [s.name for s in find_shards([tmp_path / "one/a.jsonl", tmp_path / "two/a.jsonl"]).shards]
    assert len(set(names)) == 2


def test_what_is_no_shard_at_all(tmp_path):
    with pytest.raises(DataNotFoundError):
        find_shards([tmp_path / "none"])
    with pytest.raises(DataNotFoundError):
        find_shards([str(tmp_path / "*.jsonl")])
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="neither a file nor a folder"):
        find_shards([tmp_path / "pipe"])
    with pytest.raises(NothingToJudgeError, match="no shard"):
        find_shards([tmp_path])


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_what_may_not_be_read(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(LINES)
    path.chmod(0)
    with pytest.raises(Exception, match="can't be read"):
        read(path)


def test_names_that_are_no_utf8_can_be_printed(tmp_path):
    with open(os.fsencode(tmp_path) + b"/caf\xe9.jsonl", "wb") as file:
        file.write(LINES)
    (shard,) = find_shards([tmp_path]).shards
    assert shard.name.encode().decode() == shard.name == "caf\\xe9.jsonl"
    with ShardReader(shard) as reader:
        assert sum(b.rows.num_rows for b in reader) == 6


@pytest.mark.parametrize("content", [parquet(), arrow_file(), arrow_stream()])
def test_rows_are_counted_where_no_wanted_column_is_there(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    (shard,) = find_shards([tmp_path / "x"]).shards
    with ShardReader(shard, ["messages"]) as reader:
        assert sum(b.rows.num_rows for b in reader) == 3
    assert (reader.seal.rows, reader.seal.faults) == (3, ())
