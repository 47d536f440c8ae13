"""`check` from outside: files in, exit code, report and guard folder out."""

import hashlib
import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import DISTRIBUTION, command

import dflash_guard as dg
from dflash_guard.errors import DataNotFoundError, NothingToJudgeError, UsageError

BEGIN, USER, ASSISTANT, NEWLINE, END = 151644, 872, 77091, 198, 151645
THINK, BLANK, THOUGHT = 151667, 271, 151668
STUB = [THINK, BLANK, THOUGHT, BLANK, 3925, 13]  # an empty think block and `OK.`


def prompt(i):
    return [BEGIN, USER, NEWLINE, 1000 + i % 500, 2000 + i % 700, END, NEWLINE, BEGIN, ASSISTANT, NEWLINE]


def stub_row(i):
    ids = [*prompt(i), *STUB, END, NEWLINE]
    return {"input_ids": ids, "loss_mask": [0] * 10 + [1] * 6 + [0, 0], "seq_len": len(ids)}


def good_row(i):
    thinking = [5000 + (i * 7 + k) % 3000 for k in range(60 + i % 23)]
    answer = [9000 + (i * 11 + k) % 4000 for k in range(30)]
    said = [THINK, NEWLINE, *thinking, NEWLINE, THOUGHT, BLANK, *answer, END]
    ids = [*prompt(i), *said, NEWLINE]
    mask = [0] * 10 + [1] * len(said) + [0]
    return {"id": f"row-{i}", "source": "sums", "input_ids": ids, "loss_mask": mask, "seq_len": len(ids)}


def write(path, rows):
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, path)
    return path


def said(row, *, text="A long enough answer to the question."):
    return {
        "id": str(row),
        "source": "chat",
        "messages": [{"role": "user", "content": f"Question {row}?"}, {"role": "assistant", "content": text}],
    }


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def failing(verdict, rule):
    return [row["row"] for row in verdict.failures.to_pylist() if row["rule"] == rule]


def test_the_incident_is_found_and_its_rows_are_named(tmp_path):
    rows = [stub_row(i) if i % 8 else {**stub_row(i), **good_row(i)} for i in range(80)]
    data = write(
        tmp_path / "shard.parquet", [{k: row[k] for k in ("input_ids", "loss_mask", "seq_len")} for row in rows]
    )
    done = command("check", data, "--stage", "tokenized", "--format", "json", "--max-failures", 0)
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert (report["schema"], report["result"], report["exit_code"]) == ("dflash-guard/report/1", "fail", 1)
    assert report["counts"]["rows"] == 80
    found = {(f["rule"], f["row"]) for f in report["failures"]}
    stubs = {i for i in range(80) if i % 8}
    for rule in ("few-loss-tokens", "empty-thinking", "mask-skips-end"):
        assert {row for name, row in found if name == rule} == stubs
    assert {row for name, row in found if name == "unknown-source"} == set(range(80))
    assert (
        next(f for f in report["failures"] if f["rule"] == "few-loss-tokens")["detail"] == "6 loss tokens, at least 32"
    )
    assert done.stderr.strip().endswith(" s")
    assert "Traceback" not in done.stderr


def test_a_good_set_passes(tmp_path):
    data = write(tmp_path / "shard.parquet", [good_row(i) for i in range(40)])
    verdict = dg.check(data, stage="tokenized")
    assert verdict.passed
    assert verdict.exit_code == 0
    assert verdict.counts.rows == 40
    assert verdict.failures.num_rows == 0
    assert {r.rule for r in verdict.rules if r.skipped is None} >= {
        "few-loss-tokens",
        "duplicate-id",
        "unreadable-shard",
    }


def test_old_stub_responses_pass_as_prompts_once_their_source_is_declared(tmp_path):
    rows = [
        {
            "conversations": [{"from": "human", "value": f"Question {i}?"}, {"from": "gpt", "value": "OK."}],
            "source": "unknown",
        }
        for i in range(30)
    ]
    data = lines(tmp_path / "raw.jsonl", rows)
    assert command("check", data, "--stage", "prompts").returncode == 1
    contract = tmp_path / "mine.yaml"
    contract.write_text(
        "extends: prompts\nname: mine\nstage: prompts\nsource: {constant: forum}\nid: {content: true}\n"
    )
    verdict = dg.check(data, stage="prompts", contract=str(contract))
    assert verdict.passed
    assert failing(verdict, "stub-response") == list(range(30))
    statement = json.loads((tmp_path / "__guard__/files/raw.jsonl/prompts.verdict.json").read_text())
    assert statement["predicate"]["declared"]["source"] == {"kind": "constant", "value": "forum"}


def test_the_guard_folder_binds_the_bytes(tmp_path):
    shards = tmp_path / "data"
    shards.mkdir()
    lines(shards / "b.jsonl", [said(i) for i in range(5)])
    lines(shards / "a.jsonl", [said(i) for i in range(5, 9)])
    (shards / "README.md").write_text("about")
    verdict = dg.check(shards, stage="prompts", ignore=DISTRIBUTION.split(","))
    statement = json.loads((shards / "__guard__/prompts.verdict.json").read_text())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    digests = {s["name"]: s["digest"]["sha256"] for s in statement["subject"]}
    assert digests == {n: hashlib.sha256((shards / n).read_bytes()).hexdigest() for n in ("a.jsonl", "b.jsonl")}
    assert [seal.shard.name for seal in verdict.seals] == ["a.jsonl", "b.jsonl"]
    assert [left.name for left in verdict.left_out] == ["README.md"]
    assert statement["predicate"]["contract"]["digest"].startswith("sha256:")
    facts = sorted((shards / "__guard__/facts").iterdir())
    assert {f.name.split("-")[0] for f in facts} == set(digests.values())
    run = next((shards / "__guard__/runs").iterdir())
    evidence = statement["predicate"]["evidence"]["failures"]["sha256"]
    assert hashlib.sha256((run / "failures.parquet").read_bytes()).hexdigest() == evidence
    assert not [p for p in shards.rglob("*") if p.name.endswith(".tmp") or p.name.startswith(".")]
    again = dg.check(shards, stage="prompts", ignore=DISTRIBUTION.split(","))
    assert again.counts == verdict.counts


def test_facts_of_equal_shards_are_counted_twice(tmp_path):
    for name in ("a.jsonl", "b.jsonl"):
        lines(tmp_path / name, [said(i) for i in range(3)])
    verdict = dg.check(tmp_path, stage="prompts", ignore=DISTRIBUTION.split(","))
    assert verdict.counts.rows == 6
    assert [(f["shard"], f["row"]) for f in verdict.failures.to_pylist() if f["rule"] == "duplicate-id"] == [
        ("b.jsonl", 0),
        ("b.jsonl", 1),
        ("b.jsonl", 2),
    ]


def test_tolerance_quarantines_and_passes(tmp_path):
    rows = [said(i) for i in range(99)] + [{**said(99), "source": None}]
    data = lines(tmp_path / "raw.jsonl", rows)
    verdict = dg.check(data, stage="prompts", sets=["unknown-source.tolerance=0.01"])
    assert verdict.passed
    assert (verdict.counts.failed_rows, verdict.counts.quarantined_rows) == (0, 1)
    assert failing(verdict, "unknown-source") == [99]


def test_warnings_fail_only_where_asked(tmp_path):
    data = lines(tmp_path / "raw.jsonl", [said(1, text="OK.")])
    assert dg.check(data, stage="prompts").passed
    assert dg.check(data, stage="prompts", fail_on="warn").exit_code == 1


@pytest.mark.parametrize(
    ("name", "content", "code", "word"),
    [
        ("empty.jsonl", b"", 4, "no row"),
        ("blank.jsonl", b"\n  \n", 4, "no row"),
        ("list.json", b"[]", 4, "no row"),
        ("empty.parquet", b"", 1, "unreadable-shard"),
        ("cut.jsonl.gz", b"\x1f\x8b\x08\x00", 1, "truncated-shard"),
        ("pointer.jsonl", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", 1, "unfetched-shard"),
        ("page.jsonl", b"<!DOCTYPE html><html></html>", 1, "unfetched-shard"),
        ("rows.csv", b"a,b\n1,2\n", 1, "malformed-row"),
    ],
)
def test_bad_files_get_one_clear_sentence(tmp_path, name, content, code, word):
    (tmp_path / name).write_bytes(content)
    done = command("check", tmp_path / name, "--stage", "prompts")
    assert done.returncode == code
    assert word in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_paths_and_flags_that_are_wrong(tmp_path):
    missing = command("check", tmp_path / "nothing", "--stage", "prompts")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "does not exist" in missing.stderr
    assert "hint:" in missing.stderr
    assert command("check", tmp_path, "--stage", "prompts").returncode == 4
    (tmp_path / "notes.txt").write_text("nothing to see")
    unrelated = command("check", tmp_path, "--stage", "prompts")
    assert unrelated.returncode == 4
    assert "notes.txt" in unrelated.stderr
    assert command("check", tmp_path, "--stage", "promts").returncode == 2
    assert command("check", tmp_path, "--stage", "prompts", "--colour").returncode == 2
    assert command("check").returncode == 2
    with pytest.raises(DataNotFoundError):
        dg.check(tmp_path / "nothing", stage="prompts")
    with pytest.raises(NothingToJudgeError):
        dg.check(tmp_path, stage="prompts")


def test_a_broken_shard_does_not_stop_the_others(tmp_path):
    lines(tmp_path / "a.jsonl", [said(1)])
    (tmp_path / "b.parquet").write_bytes(b"PAR1 this is no Parquet PAR1")
    lines(tmp_path / "c.jsonl", [said(2), {"nothing": 1}])
    verdict = dg.check(tmp_path, stage="prompts")
    places = {(f["rule"], f["shard"], f["row"]) for f in verdict.failures.to_pylist() if f["level"] == "error"}
    assert places == {("unreadable-shard", "b.parquet", None), ("unknown-shape", "c.jsonl", 1)} | {
        ("unknown-source", "c.jsonl", 1)
    }


def test_a_begin_of_turn_id_that_no_family_has_needs_a_family(tmp_path):
    ids = [7, 8, 9, 10]
    data = write(tmp_path / "x.parquet", [{"input_ids": ids, "loss_mask": [0, 1, 1, 1], "seq_len": 4}])
    with pytest.raises(UsageError, match="family"):
        dg.check(data, stage="tokenized")
    assert dg.check(data, stage="tokenized", family="qwen3").exit_code == 1


def test_an_upstream_that_holds_no_conversation_is_no_silence(tmp_path):
    data = write(tmp_path / "shard.parquet", [good_row(1)])
    with pytest.raises(UsageError, match="no conversation"):
        dg.check(data, stage="tokenized", upstream=str(data))


def test_the_redacted_run_holds_no_sample_text(tmp_path):
    secret = "hunter2-the-secret"
    row = said(1)
    row["messages"][0]["role"] = secret
    data = lines(tmp_path / "raw.jsonl", [row])
    done = command("check", data, "--stage", "prompts", "--redact", "--format", "json")
    assert done.returncode == 1
    assert secret not in done.stdout + done.stderr
    for path in (tmp_path / "__guard__/files/raw.jsonl/runs").rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes()


def test_interrupt_leaves_no_verdict_and_no_scratch(tmp_path):
    data = tmp_path / "big.jsonl"
    row = json.dumps(said(1, text="word " * 200))
    with data.open("w") as file:
        for _ in range(40):
            file.write((row + "\n") * 5000)
    child = subprocess.Popen(
        [sys.executable, "-m", "dflash_guard", "check", str(data), "--stage", "prompts"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    guard = tmp_path / "__guard__/files/big.jsonl"
    deadline = time.monotonic() + 60
    while not (guard / "facts").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert b"Traceback" not in errors
    assert not (guard / "prompts.verdict.json").exists()
    assert not list(guard.rglob("*.tmp"))


def test_two_checks_at_once_on_one_folder(tmp_path):
    lines(tmp_path / "a.jsonl", [said(i) for i in range(500)])
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: command("check", tmp_path, "--stage", "prompts"), range(4)))
    assert [each.returncode for each in done] == [0] * 4
    json.loads((tmp_path / "__guard__/prompts.verdict.json").read_text())


def test_a_hundred_runs_end_with_their_own_exit_code(tmp_path):
    good = lines(tmp_path / "good.jsonl", [said(1)])
    bad = write(tmp_path / "bad.parquet", [stub_row(1)])
    runs = [("prompts", good, 0), ("tokenized", bad, 1)] * 50
    with ThreadPoolExecutor(2) as pool:
        codes = list(
            pool.map(lambda r: command("check", r[1], "--stage", r[0], "--ignore", DISTRIBUTION).returncode, runs)
        )
    assert codes == [code for *_, code in runs]
