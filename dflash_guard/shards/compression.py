"""Strict decompression, block by block: a stream that ends early, or fails its checksum, is never taken as whole."""

import zlib
from typing import Protocol

import zstandard

from dflash_guard.shards.model import ShardFault

__all__ = ["Decompressor", "Gzip", "Plain", "Zstd", "decompressor"]

_BLOCK = 1 << 22  # bytes that one step hands out at most: a bomb streams through instead of filling memory
_LARGEST_WINDOW = 1 << 31
_HEADER = 8  # bytes that say what a zstd frame is; no frame is shorter
_STEP = 1 << 16


class Decompressor(Protocol):
    """Takes stored bytes, hands out content; tells at the end whether the stream was sound."""

    fault: ShardFault | None

    def feed(self, stored: bytes) -> "list[bytes]":
        """Content of the next stored bytes, in blocks."""
        ...

    def finish(self) -> None:
        """Tell that no more bytes come."""
        ...


class Plain:
    """No compression."""

    def __init__(self) -> None:
        self.fault: ShardFault | None = None

    def feed(self, stored: bytes) -> list[bytes]:
        """The bytes themselves."""
        return [stored]

    def finish(self) -> None:
        """Nothing can be missing."""


class Gzip:
    """Members one behind another; behind the last, zero padding alone."""

    def __init__(self) -> None:
        self.fault: ShardFault | None = None
        self._member = zlib.decompressobj(wbits=31)
        self._within = False  # whether the current member has begun
        self._padding = False

    def feed(self, stored: bytes) -> list[bytes]:
        """Content of the next stored bytes."""
        out: list[bytes] = []
        while stored and self.fault is None:
            if not self._within and not self._begin(stored):
                break
            stored = stored.lstrip(b"\0") if self._padding else stored
            try:
                block = self._member.decompress(stored, _BLOCK)
            except zlib.error as error:
                self.fault = ShardFault("truncated-shard", f"the gzip stream is broken: {error}")
                break
            if block:
                out.append(block)
            stored = self._member.unconsumed_tail
            if self._member.eof:
                stored = self._member.unused_data
                self._member, self._within = zlib.decompressobj(wbits=31), False
                self._padding = True
        return out

    def _begin(self, stored: bytes) -> bool:
        rest = stored.lstrip(b"\0") if self._padding else stored
        if not rest:
            return False
        if rest[:1] != b"\x1f":
            self.fault = ShardFault("unreadable-shard", "bytes after the last gzip member that are no padding")
            return False
        self._within = True
        return True

    def finish(self) -> None:
        """Tell that no more bytes come."""
        if self._within and self.fault is None:
            self.fault = ShardFault("truncated-shard", "the gzip stream ends early")


class Zstd:
    """Frames one behind another, skippable ones among them; each must reach its end."""

    def __init__(self) -> None:
        self.fault: ShardFault | None = None
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._kept = b""  # the first bytes of a header that is not whole yet
        self._skip = 0
        self._ended = False

    def feed(self, stored: bytes) -> list[bytes]:
        """Content of the next stored bytes."""
        out: list[bytes] = []
        rest = memoryview(self._kept + stored if self._kept else stored)
        self._kept = b""
        while rest and self.fault is None:
            if self._skip:
                step = min(self._skip, len(rest))
                rest, self._skip = rest[step:], self._skip - step
            elif self._frame is not None:
                rest = self._decompress(rest, out)
            else:
                rest = self._begin(rest)
        return out

    def _begin(self, rest: memoryview) -> memoryview:
        """Begin a frame, or pass over padding; keep the bytes of a header that is not whole."""
        if self._ended and rest[0] == 0:
            return memoryview(bytes(rest).lstrip(b"\0"))
        if len(rest) < _HEADER:
            self._kept = bytes(rest)
            return rest[:0]
        head = bytes(rest[:_HEADER])
        if head[1:4] == b"\x2a\x4d\x18" and 0x50 <= head[0] <= 0x5F:
            self._skip, self._ended = int.from_bytes(head[4:8], "little"), True
            return rest[_HEADER:]
        if head[:4] != b"\x28\xb5\x2f\xfd":
            self.fault = ShardFault("unreadable-shard", "bytes after the last zstd frame that are no padding")
            return rest
        self._frame = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW).decompressobj(write_size=_BLOCK)
        return rest

    def _decompress(self, rest: memoryview, out: list[bytes]) -> memoryview:
        frame = self._frame
        if frame is None:
            return rest
        try:
            # A small step at a time bounds what one step can blow up to.
            block = frame.decompress(bytes(rest[:_STEP]))
        except zstandard.ZstdError as error:
            rule = "unreadable-shard" if "window" in str(error).lower() or "memory" in str(error) else "truncated-shard"
            self.fault = ShardFault(rule, f"the zstd stream is broken: {error}")
            return rest
        if block:
            out.append(block)
        if frame.eof:
            self._frame, self._ended = None, True
            return memoryview(frame.unused_data + bytes(rest[_STEP:]) if frame.unused_data else rest[_STEP:])
        return rest[_STEP:]

    def finish(self) -> None:
        """Tell that no more bytes come."""
        if self.fault is None and (self._frame is not None or self._skip or self._kept.strip(b"\0")):
            self.fault = ShardFault("truncated-shard", "the zstd stream ends early")


def decompressor(name: str) -> Decompressor:
    """The decompressor of a compression by name: "", gzip or zstd."""
    kinds: dict[str, type[Decompressor]] = {"": Plain, "gzip": Gzip, "zstd": Zstd}
    return kinds[name]()
