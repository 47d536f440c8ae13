"""What a file is, told by its first bytes and never by its name."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dflash_guard.shards.model import ShardFault

__all__ = ["HEAD", "Told", "looks_like_shard", "tell_compression", "tell_content"]

HEAD = 64 * 1024  # bytes that are looked at
_MOST, _FEW = 0.9, 0.1  # shares of NUL bytes that tell UTF-16 and UTF-32 from what is merely odd
_WHITE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_ZSTD, _SKIPPABLE = b"\x28\xb5\x2f\xfd", re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)
_BINARY_NAMES = (".parquet", ".arrow", ".feather", ".gz", ".zst", ".zstd", ".ipc")
_OTHERS = {
    b"PK\x03\x04": "a zip archive",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x04\x22\x4d\x18": "lz4",
    b"\x80\x02": "a pickle",
    b"\x80\x03": "a pickle",
    b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle",
    b"\x93NUMPY": "a NumPy file",
    b"SQLite format 3": "an SQLite database",
    b"%PDF": "a PDF",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"FEA1": "Feather version 1",
    b"PARE": "encrypted Parquet",
    b"Obj\x01": "Avro",
    b"ORC": "ORC",
}
_CONVERSATION = {"messages", "conversations", "instruction", "input_ids", "prompt", "text"}


@dataclass(frozen=True, slots=True)
class Told:
    """What the first bytes say.

    Attributes:
        format: How to read on; `unknown` where nothing can.
        fault: Why it is no shard, or an empty one.
    """

    format: Literal["jsonl", "json-array", "parquet", "arrow-file", "arrow-stream", "unknown"]
    fault: ShardFault | None = None


def tell_compression(head: bytes) -> Literal["", "gzip", "zstd"]:
    """Tell compression by magic bytes; a zstd file may begin with a skippable frame."""
    if head[:2] == b"\x1f\x8b":
        return "gzip"
    return "zstd" if head[:4] == _ZSTD or _SKIPPABLE.match(head) else ""


def tell_content(head: bytes, *, name: str, whole: bool, compressed: bool = False) -> Told:
    """Tell the format of bytes that are not compressed (any more).

    Args:
        head: The first bytes, up to HEAD.
        name: The shard's name: an empty file is judged by what it should have been.
        whole: Whether `head` is all there is.
        compressed: Whether they came out of gzip or zstd.
    """
    if whole and not head.strip(_WHITE):
        return _tell_empty(head, name, compressed=compressed)
    if magic := _tell_magic(head):
        if compressed and magic.fault is None:
            return _refuse(f"{magic.format} inside a compressed file", "store it without the compression around it")
        return magic
    if utf := _tell_utf(head):
        return _refuse(f"{utf} text", "convert it to UTF-8")
    return _tell_text(head, whole=whole)


def _tell_empty(head: bytes, name: str, *, compressed: bool) -> Told:
    if not head and not compressed and name.lower().endswith(_BINARY_NAMES):
        return Told("unknown", ShardFault("unreadable-shard", "0 bytes"))
    return Told("jsonl", ShardFault("empty-shard", "0 bytes" if not head else "white space only"))


def _tell_magic(head: bytes) -> Told | None:
    if head[:4] == b"PAR1":
        return Told("parquet")
    if head[:6] == b"ARROW1":
        return Told("arrow-file")
    if head[:4] == b"\xff\xff\xff\xff":
        return Told("arrow-stream")
    for magic, what in _OTHERS.items():
        if head.startswith(magic):
            return _refuse(what, "convert it to JSONL, Parquet or Arrow")
    if len(head) > 262 and head[257:262] == b"ustar":
        return _refuse("a tar archive", "unpack it first")
    return None


def _tell_utf(head: bytes) -> str:
    if head[:4] in (b"\xff\xfe\0\0", b"\0\0\xfe\xff"):
        return "UTF-32"
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "UTF-16"
    sample = head[:4096]
    if len(sample) < 8:
        return ""
    nul = [sample[i::2].count(0) / len(sample[i::2]) for i in (0, 1)]
    if max(nul) > _MOST and min(nul) < _FEW:
        return "UTF-16"
    quarters = [sample[i::4].count(0) / len(sample[i::4]) for i in range(4)]
    return "UTF-32" if sorted(quarters)[1] > _MOST and min(quarters) < _FEW else ""


def _tell_text(head: bytes, *, whole: bool) -> Told:
    text = head.removeprefix(_BOM).lstrip(_WHITE)
    if head.startswith(b"version https://git-lfs.github.com/spec/"):
        return _unfetched("a Git LFS pointer: run git lfs pull")
    if re.match(rb"(?i)<(!doctype\s|html|\?xml|error|head|body)", text):
        return _unfetched("an HTML or XML page")
    if whole and text[:1] == b"{" and (error := _tell_error_body(text)):
        return _unfetched(error)
    if text[:1] == b"[":
        return Told("json-array")
    if _is_binary(head):
        return _refuse("binary data of an unknown format", "convert it to JSONL, Parquet or Arrow")
    return Told("jsonl")


def _tell_error_body(text: bytes) -> str:
    """Whether one JSON object is the whole file, speaks of an error, and is no row."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(value, dict) or _CONVERSATION & set(value):
        return ""
    said = [key for key in ("error", "message", "code") if key in value]
    return f"one JSON object with {', '.join(said)} and no conversation, in place of the file" if said else ""


def _is_binary(head: bytes) -> bool:
    sample = head[:4096]
    odd = sum(sample.count(bytes([b])) for b in (*range(1, 9), *range(14, 32)))
    # Lines of NUL bytes are a row each (a gap that a crash left); anything else that is mostly odd is no text.
    return odd > 0.1 * len(sample)


def _refuse(what: str, hint: str) -> Told:
    return Told("unknown", ShardFault("unreadable-shard", f"{what}: {hint}"))


def _unfetched(what: str) -> Told:
    return Told("unknown", ShardFault("unfetched-shard", what))


def looks_like_shard(path: Path) -> bool:
    """Whether a file in a folder is meant as data: by name where the name says so, else by its first bytes."""
    lower = path.name.lower()
    if lower.endswith((*_BINARY_NAMES, ".jsonl", ".json", ".ndjson", ".jsonlines")):
        return True
    with path.open("rb") as file:
        head = file.read(4096)
    if tell_compression(head) or head[:4] == b"PAR1" or head[:6] == b"ARROW1" or head[:4] == b"\xff\xff\xff\xff":
        return True
    text = head.removeprefix(_BOM).lstrip(_WHITE)
    return text[:1] in (b"{", b"[") or head.startswith(b"version https://git-lfs")
