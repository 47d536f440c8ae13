"""pandera's traps, disarmed: nothing passes because a library looked away."""

import json
import os
import subprocess
import sys

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_guard.contract.load import load_contract
from dflash_guard.contract.rows import compile_schema, count_failing
from dflash_guard.errors import ExitCode, JudgeError

COLUMNS = {
    "few-loss-tokens": pa.int32(),
    "mask-boundary": pa.int32(),
    "clipped-response": pa.bool_(),
}


def schema(**options):
    return compile_schema(load_contract(stage="tokenized", **options), COLUMNS)


def frame(losses, boundaries, clipped):
    return pl.DataFrame(
        {
            "few-loss-tokens": pl.Series(losses, dtype=pl.Int32),
            "mask-boundary": pl.Series(boundaries, dtype=pl.Int32),
            "clipped-response": pl.Series(clipped, dtype=pl.Boolean),
        }
    )


@given(st.lists(st.tuples(st.integers(0, 64), st.integers(-1, 3), st.booleans()), max_size=30), st.integers(0, 64))
def test_pandera_counts_what_plain_python_counts(rows, bound):
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    counts = count_failing(frame(*columns), schema(sets=[f"few-loss-tokens.min={bound}"]))
    assert counts.get("few-loss-tokens", 0) == sum(loss < bound for loss, *_ in rows)
    assert counts.get("mask-boundary", 0) == sum(at != -1 for _, at, _ in rows)
    assert counts.get("clipped-response", 0) == sum(cut for *_, cut in rows)


def test_a_null_is_an_error_and_never_a_pass():
    with pytest.raises(JudgeError, match="few-loss-tokens") as caught:
        count_failing(frame([40, None], [-1, -1], [False, False]), schema())
    assert caught.value.exit_code == ExitCode.NOT_JUDGED


def test_a_missing_column_or_another_type_is_an_error():
    good = frame([40], [-1], [False])
    with pytest.raises(JudgeError):
        count_failing(good.drop("mask-boundary"), schema())
    with pytest.raises(JudgeError):
        count_failing(good.with_columns(pl.col("few-loss-tokens").cast(pl.Utf8)), schema())


def test_ignored_rules_are_not_compiled():
    assert "mask-boundary" not in schema(ignore=["mask-boundary"]).columns


@pytest.mark.parametrize(
    "variables",
    [
        {"PANDERA_VALIDATION_ENABLED": "0"},
        {"PANDERA_VALIDATION_ENABLED": "False"},
        {"PANDERA_VALIDATION_DEPTH": "SCHEMA_ONLY"},
        {"PANDERA_VALIDATION_DEPTH": "SCHEMA_ONLY", "PANDERA_VALIDATION_ENABLED": "0", "PANDERA_CACHE_DATAFRAME": "1"},
    ],
)
def test_the_environment_cannot_disarm_it(tmp_path, variables):
    rows = [{"id": str(i), "messages": [{"role": "user", "content": "Hi?"}], "source": "unknown"} for i in range(3)]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "dflash_guard",
            "check",
            str(tmp_path / "x.jsonl"),
            "--stage",
            "prompts",
            "--format",
            "json",
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )
    assert done.returncode == 1
    assert json.loads(done.stdout)["counts"]["failed_rows"] == 3
