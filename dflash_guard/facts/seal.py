"""A shard's seal inside its facts file, so that the facts of an unchanged shard can stand for reading it again."""

import base64
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dflash_guard.shards.model import Seal, Shard, ShardFault

__all__ = ["read_seal", "seal_metadata"]

_KEY = "dflash_guard.seal"


def seal_metadata(seal: Seal) -> dict[str, str]:
    """What a facts file says of the shard it was made from, beside the facts."""
    schema = base64.b64encode(seal.schema.serialize()).decode() if seal.schema is not None else None
    said = {
        "sha256": seal.sha256,
        "size": seal.size,
        "rows": seal.rows,
        "format": seal.format,
        "compression": seal.compression,
        "faults": [[fault.rule, fault.detail] for fault in seal.faults],
        "schema": schema,
    }
    return {_KEY: json.dumps(said)}


def read_seal(path: Path, shard: Shard) -> Seal | None:
    """The seal in a facts file, for the shard that it was made from; None where the file can't be relied on."""
    try:
        with pq.ParquetFile(path) as file:
            metadata = file.metadata
            said: dict[str, Any] = json.loads(metadata.metadata[_KEY.encode()])
            rows = metadata.num_rows
        seal = Seal(
            shard=shard,
            sha256=said["sha256"],
            size=said["size"],
            rows=said["rows"],
            format=said["format"],
            compression=said["compression"],
            faults=tuple(ShardFault(rule, detail) for rule, detail in said["faults"]),
            schema=_schema(said["schema"]),
        )
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None
    return seal if rows == seal.rows and seal.size == shard.size and path.name.startswith(seal.sha256) else None


def _schema(text: str | None) -> pa.Schema | None:
    return None if text is None else pa.ipc.read_schema(pa.BufferReader(base64.b64decode(text)))
