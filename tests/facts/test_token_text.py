"""Token rows as JSON text: the same verdicts as from columns, and wrong types named row by row."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dflash_guard as dg
from dflash_guard.contract.catalog import rules_for

HEAD = [151644, 872, 198, 15191, 151645, 198, 151644, 77091, 198]
SAID = [151667, 198, *range(5000, 5040), 198, 151668, 271, *range(9000, 9020), 151645]
IDS = [*HEAD, *SAID, 198]
MASK = [0] * len(HEAD) + [1] * len(SAID) + [0]
LABELS = [i if m else -100 for i, m in zip(IDS, MASK, strict=True)]
DATASET = [rule.name for rule in rules_for("tokenized") if rule.scope == "dataset"]
QUIET = ["unknown-source", "missing-id", *DATASET]

ROWS = [
    ({"input_ids": IDS, "loss_mask": MASK, "seq_len": len(IDS)}, set()),
    ({"input_ids": IDS, "loss_mask": [bool(m) for m in MASK]}, set()),
    ({"input_ids": IDS, "labels": LABELS}, set()),
    ({"input_ids": IDS, "loss_mask": MASK, "labels": None}, set()),
    ({"input_ids": IDS, "loss_mask": [*MASK[:-1], 2]}, {"mask-not-binary"}),
    ({"input_ids": IDS, "loss_mask": [*MASK[:-1], None]}, {"mask-not-binary"}),
    ({"input_ids": [*IDS[:-1], None], "loss_mask": MASK}, {"token-out-of-vocabulary"}),
    ({"input_ids": [*IDS[:-1], 151_936], "loss_mask": MASK}, {"token-out-of-vocabulary"}),
    ({"input_ids": IDS, "loss_mask": MASK[:-1]}, {"length-disagreement"}),
    ({"input_ids": IDS, "loss_mask": MASK, "seq_len": 3}, {"length-disagreement"}),
    ({"input_ids": [*IDS[:-1], 198.0], "loss_mask": MASK}, {"column-type"}),
    ({"input_ids": ["1", "2"], "loss_mask": [0, 1]}, {"column-type"}),
    ({"input_ids": "1 2 3", "loss_mask": MASK}, {"column-type"}),
    ({"input_ids": IDS, "loss_mask": "all"}, {"column-type"}),
    ({"input_ids": IDS, "loss_mask": [str(m) for m in MASK]}, {"column-type"}),
    ({"input_ids": IDS, "labels": [0.5] * len(IDS)}, {"column-type"}),
    ({"input_ids": IDS, "loss_mask": MASK, "seq_len": "many"}, {"column-type"}),
    ({"input_ids": [], "loss_mask": []}, {"no-loss-tokens", "few-loss-tokens"}),
    ({"input_ids": IDS}, {"unknown-shape"}),
    ({"loss_mask": MASK}, {"unknown-shape"}),
    ({"text": "not tokenised"}, {"unknown-shape"}),
]


def judge(path):
    verdict = dg.check(path, stage="tokenized", ignore=QUIET)
    found = {}
    for failure in verdict.failures.to_pylist():
        assert failure["detail"]
        found.setdefault(failure["row"], set()).add(failure["rule"])
    return [found.get(i, set()) for i in range(verdict.counts.rows)]


def test_each_row_has_its_verdict(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row, _ in ROWS))
    wrong = {i: (got, want) for i, (got, (_, want)) in enumerate(zip(judge(path), ROWS, strict=True)) if got != want}
    assert not wrong


def test_a_line_that_is_no_json_is_only_that(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(ROWS[0][0]) + '\n{"input_ids": [1, NaN]}\n' + json.dumps(ROWS[0][0]) + "\n")
    assert judge(path) == [set(), {"malformed-row"}, set()]


def test_columns_say_the_same(tmp_path):
    rows = [
        (row, want)
        for row, want in ROWS
        if set(row) <= {"input_ids", "loss_mask", "seq_len"} and "column-type" not in want
    ]
    rows = [
        (row, want) for row, want in rows if {"input_ids", "loss_mask"} <= set(row) and row["loss_mask"][:1] != [False]
    ]
    types = {"input_ids": pa.list_(pa.int64()), "loss_mask": pa.list_(pa.int64()), "seq_len": pa.int64()}
    table = pa.table(
        {name: pa.array([row.get(name, len(row["input_ids"])) for row, _ in rows], of) for name, of in types.items()}
    )
    pq.write_table(table, tmp_path / "x.parquet")
    assert judge(tmp_path / "x.parquet") == [want for _, want in rows]


@pytest.mark.parametrize(
    ("extra", "rule"),
    [
        ({"id": pa.array([[1, 2]])}, {"missing-id"}),
        ({"id": pa.array([1.5])}, {"missing-id"}),
        ({"id": pa.array([{"a": 1}])}, {"missing-id"}),
        ({"source": pa.array([{"a": 1}])}, {"unknown-source"}),
        ({"seq_len": pa.array([3.5])}, {"column-type"}),
        ({"seq_len": pa.array([None], pa.null())}, {"column-type"}),
        ({"seq_len": pa.array(["many"])}, {"column-type"}),
    ],
)
def test_a_column_of_an_odd_type_is_a_verdict_and_stops_nothing(tmp_path, extra, rule):
    columns = {"id": pa.array(["a"]), "source": pa.array(["s"]), "input_ids": [IDS], "loss_mask": [MASK], **extra}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    verdict = dg.check(tmp_path / "x.parquet", stage="tokenized", ignore=DATASET)
    assert {f["rule"] for f in verdict.failures.to_pylist()} == rule
