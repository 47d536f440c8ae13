"""`split` from outside: rows told apart, unchanged, counted, and whole or not at all."""

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from commands import DISTRIBUTION, IGNORED, command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dflash_guard as dg
import samples
from dflash_guard.errors import GateError, UsageError
from dflash_guard.verbs.split import split


def divide(data, folder, **options):
    options.setdefault("ignore", IGNORED)
    return split(data, passed=folder / "ok", failed=folder / "bad", **options)


def line(i, *, good=True, indent=""):
    text = json.dumps(samples.completion(i, finish="stop" if good else "length"), ensure_ascii=False)
    return f"{indent}{text}{indent}".encode()


GOOD = (0, 2, 5, 6)
LINES = [line(0), line(1, good=False), line(2, indent="  "), b"", b'{"broken": ', line(5), line(6) + b"\r", b"\x00\x00"]


@pytest.mark.parametrize(
    ("name", "pack", "unpack"),
    [
        ("a.jsonl", bytes, bytes),
        ("a.jsonl.gz", gzip.compress, gzip.decompress),
        ("a.jsonl.zst", zstandard.compress, lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)),
    ],
)
def test_lines_stay_as_they_are(tmp_path, name, pack, unpack):
    data = tmp_path / "data"
    data.mkdir()
    (data / name).write_bytes(pack(b"\n".join(LINES)))  # the last line has no newline
    done = divide(data, tmp_path, stage="completions")
    assert (done.passed_rows, done.failed_rows) == (4, 3)
    assert unpack((tmp_path / "ok" / name).read_bytes()) == b"".join(LINES[i] + b"\n" for i in GOOD)
    assert unpack((tmp_path / "bad" / name).read_bytes()) == b"".join(LINES[i] + b"\n" for i in (1, 4, 7))


def test_an_array_stays_an_array(tmp_path):
    rows = [samples.completion(i, finish="length" if i == 3 else "stop") for i in range(6)]
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.json").write_text(json.dumps(rows))
    divide(data, tmp_path, stage="completions")
    assert json.loads((tmp_path / "ok/a.json").read_text()) == [row for row in rows if row["id"] != "3"]
    assert json.loads((tmp_path / "bad/a.json").read_text()) == [rows[3]]


def test_an_element_that_is_no_json_stops_what_would_lose_it(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.json").write_text(
        f"[{json.dumps(samples.completion(1))}, nonsense, {json.dumps(samples.completion(2))}]"
    )
    with pytest.raises(UsageError, match="no JSON objects"):
        divide(data, tmp_path, stage="completions")
    assert sorted(os.listdir(tmp_path)) == ["data"]
    assert split(data, passed=tmp_path / "ok", stage="completions", ignore=IGNORED).passed_rows == 2


def token_table(count=40):
    rows = [samples.tokens(i, 10 if i % 4 == 1 else 80) for i in range(count)]
    table = pa.Table.from_pylist(rows)
    source = pa.array([row["source"] for row in rows]).dictionary_encode()
    table = table.set_column(table.schema.get_field_index("source"), "source", source)
    table = table.append_column("score", pa.array([i / 7 for i in range(count)], pa.float32()))
    return table.replace_schema_metadata({"made": "by hand"})


def write_parquet(path, table):
    pq.write_table(table, path, compression="zstd", row_group_size=7)


def write_stream(path, table):
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


def write_file(path, table):
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


READ = {
    "parquet": pq.read_table,
    "stream": lambda p: pa.ipc.open_stream(p).read_all(),
    "file": lambda p: pa.ipc.open_file(p).read_all(),
}
WRITE = {"parquet": write_parquet, "stream": write_stream, "file": write_file}


@pytest.mark.parametrize("kind", READ)
def test_columns_stay_as_they_are(tmp_path, kind):
    data = tmp_path / "data"
    data.mkdir()
    table = token_table()
    WRITE[kind](data / "shard.bin", table)
    done = divide(data, tmp_path, stage="tokenized")
    assert (done.passed_rows, done.failed_rows) == (30, 10)
    good = READ[kind](tmp_path / "ok/shard.bin")
    assert good.schema.equals(READ[kind](data / "shard.bin").schema, check_metadata=True)
    assert good.to_pylist() == [row for row in table.to_pylist() if int(row["id"]) % 4 != 1]
    assert READ[kind](tmp_path / "bad/shard.bin").to_pylist() == [
        row for row in table.to_pylist() if int(row["id"]) % 4 == 1
    ]
    if kind == "parquet":
        assert pq.ParquetFile(tmp_path / "ok/shard.bin").metadata.row_group(0).column(0).compression == "ZSTD"
    assert dg.check(tmp_path / "ok", stage="tokenized", ignore=IGNORED).passed


def test_a_broken_shard_goes_to_the_failed_as_it_is(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    samples.write(data, [samples.completion(i) for i in range(5)], "completions", "good")
    packed = gzip.compress(b"".join(line(10 + i) + b"\n" for i in range(300)), 0)
    (data / "torn.jsonl.gz").write_bytes(packed[:-20000])
    done = divide(data, tmp_path, stage="completions")
    assert (tmp_path / "bad/torn.jsonl.gz").read_bytes() == packed[:-20000]
    assert sorted(os.listdir(tmp_path / "ok")) == ["__guard__", "good.jsonl"]
    assert done.passed_rows == 5
    assert done.failed_rows > 0
    assert dg.check(tmp_path / "ok", stage="completions", ignore=IGNORED).passed


def chain(tmp_path):
    prompts, completions = tmp_path / "prompts", tmp_path / "completions"
    for folder in (prompts, completions):
        folder.mkdir()
    samples.write(prompts, [samples.prompt(i) for i in range(30)], "prompts")
    rows = [samples.completion(i, thinking=None if i % 10 == 3 else "I count. " * 20) for i in range(30)]
    samples.write(completions, rows, "completions")
    time.sleep(0.12)
    assert dg.check(prompts, stage="prompts", ignore=IGNORED).passed
    return prompts, completions


def test_the_clean_part_is_accounted_for_and_opens_its_gate(tmp_path):
    prompts, completions = chain(tmp_path)
    split(
        completions,
        passed=tmp_path / "ok",
        failed=tmp_path / "bad",
        regenerate=tmp_path / "again",
        upstream=str(prompts),
        stage="completions",
        ignore=IGNORED,
    )
    verdict = dg.check(tmp_path / "ok", stage="completions", ignore=IGNORED)
    accounted = next(each for each in verdict.rules if each.rule == "unaccounted-rows")
    assert verdict.passed
    assert (accounted.skipped, accounted.observed) == (None, 30)
    passage = dg.gate(tmp_path / "ok", ignore=IGNORED)
    assert [link.record.stage for link in passage.chain] == ["prompts"]
    again = [json.loads(text) for text in (tmp_path / "again/prompts.jsonl").read_text().splitlines()]
    assert again == [
        {"id": str(i), "source": "sums", "messages": [{"role": "user", "content": f"What is number {i}?"}]}
        for i in (3, 13, 23)
    ]
    assert dg.check(tmp_path / "again", stage="prompts", ignore=IGNORED).passed


def test_a_row_that_vanishes_after_the_split_is_missed(tmp_path):
    prompts, completions = chain(tmp_path)
    split(completions, passed=tmp_path / "ok", upstream=str(prompts), stage="completions", ignore=IGNORED)
    path = tmp_path / "ok/shard.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(UsageError, match=r"is of other shards: shard\.jsonl has other bytes"):
        dg.check(tmp_path / "ok", stage="completions", ignore=IGNORED)


def test_token_rows_are_regenerated_from_their_upstream(tmp_path):
    _, completions = chain(tmp_path)
    tokens = tmp_path / "tokens"
    tokens.mkdir()
    samples.write(tokens, [samples.tokens(i, 10 if i in {4, 9} else 80) for i in range(30)], "tokenized")
    done = split(
        tokens,
        passed=tmp_path / "ok",
        regenerate=tmp_path / "again",
        upstream=str(completions),
        stage="tokenized",
        ignore=[*IGNORED, "lost-thinking"],
    )
    again = [json.loads(text)["id"] for text in (tmp_path / "again/prompts.jsonl").read_text().splitlines()]
    assert (again, done.not_regenerated) == (["4", "9"], 0)


def test_a_work_list_of_tokens_needs_their_upstream(tmp_path):
    path = samples.write(tmp_path, [samples.tokens(i, 10) for i in range(3)], "tokenized")
    ran = command(
        "split", path, "--passed", tmp_path / "ok", "--regenerate", tmp_path / "again", "--ignore", DISTRIBUTION
    )
    assert ran.returncode == 2
    assert "--upstream" in ran.stderr
    assert not (tmp_path / "ok").exists()


@pytest.mark.parametrize("where", ["data/ok", "data", "."])
def test_an_output_in_the_data_is_refused(tmp_path, where):
    data = tmp_path / "data"
    data.mkdir()
    samples.write(data, [samples.prompt(i) for i in range(3)], "prompts")
    with pytest.raises(UsageError, match="lie in one another"):
        split(data, passed=tmp_path / where, stage="prompts", ignore=IGNORED)


def test_an_output_that_is_there_is_left_alone(tmp_path):
    path = samples.write(tmp_path, [samples.prompt(i) for i in range(3)], "prompts")
    (tmp_path / "ok").mkdir()
    (tmp_path / "ok/mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        split(path, passed=tmp_path / "ok", stage="prompts", ignore=IGNORED)
    assert (tmp_path / "ok/mine.txt").read_text() == "mine"


def test_the_same_split_again_takes_its_place(tmp_path):
    path = samples.write(tmp_path, [samples.prompt(i) for i in range(3)], "prompts")
    for _ in range(2):
        assert split(path, passed=tmp_path / "ok", stage="prompts", ignore=IGNORED).passed_rows == 3
    assert sorted(os.listdir(tmp_path)) == ["__guard__", "ok", "shard.jsonl"]


def test_nothing_passes(tmp_path):
    path = samples.write(tmp_path, [samples.tokens(i, 10) for i in range(3)], "tokenized")
    ran = command("split", path, "--passed", tmp_path / "ok", "--ignore", DISTRIBUTION)
    assert ran.returncode == 0, ran.stderr
    assert "note: no row passed" in ran.stderr
    assert os.listdir(tmp_path / "ok") == ["__guard__"]


def test_data_that_changes_in_between_is_not_split(tmp_path, monkeypatch):
    path = samples.write(tmp_path, [samples.prompt(i) for i in range(5)], "prompts")
    from dflash_guard.verbs import split as verb

    def check(*args, **options):
        verdict = dg.check(*args, **options)
        path.write_text(path.read_text().replace("number 3", "number 4"))
        return verdict

    monkeypatch.setattr(verb, "check", check)
    with pytest.raises(GateError, match="changed since it was judged"):
        split(path, passed=tmp_path / "ok", stage="prompts", ignore=IGNORED)
    assert not (tmp_path / "ok").exists()


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(good=st.lists(st.booleans(), min_size=1, max_size=40), blank=st.sets(st.integers(0, 40)))
def test_rows_add_up_and_stay(tmp_path_factory, good, blank):
    folder = tmp_path_factory.mktemp("split")
    written = [line(i, good=is_good) for i, is_good in enumerate(good)]
    text = b"".join((b"\n" if i in blank else b"") + each + b"\n" for i, each in enumerate(written))
    (folder / "data.jsonl").write_bytes(text)
    done = divide(folder / "data.jsonl", folder, stage="completions")
    assert (done.passed_rows, done.failed_rows) == (sum(good), len(good) - sum(good))
    for side, wanted in (("ok", True), ("bad", False)):
        path = folder / side / "data.jsonl"
        expected = b"".join(each + b"\n" for each, is_good in zip(written, good, strict=True) if is_good is wanted)
        assert (path.read_bytes() if path.exists() else b"") == expected


# Killed at any moment.


@pytest.mark.parametrize("verb", ["check", "split"])
def test_a_kill_leaves_the_old_state_or_the_new(tmp_path, verb):
    """Thirty kills each, at moments over the whole run: what stands afterwards is whole."""
    data = tmp_path / "data"
    data.mkdir()
    write_parquet(data / "a.parquet", token_table(400))
    dg.check(data, stage="tokenized", ignore=IGNORED)
    old = (data / "__guard__/tokenized.verdict.json").read_bytes()
    args = ["check", data, "-s", "tokenized", "--ignore", DISTRIBUTION]
    if verb == "split":
        args = ["split", data, "--ignore", DISTRIBUTION, "--passed", tmp_path / "ok", "--failed", tmp_path / "bad"]
    began = time.monotonic()
    assert command(*args, *(["--set", "few-loss-tokens.min=31"] if verb == "check" else [])).returncode in {0, 1}
    whole = time.monotonic() - began
    rng = random.Random(7)
    for i in range(30):
        if verb == "check":
            (data / "__guard__/tokenized.verdict.json").write_bytes(old)
            extra = ["--set", f"few-loss-tokens.min={33 + i}"]
        else:
            shutil.rmtree(tmp_path / "ok", ignore_errors=True)
            shutil.rmtree(tmp_path / "bad", ignore_errors=True)
            extra = []
        with subprocess.Popen(
            [sys.executable, "-m", "dflash_guard", *map(str, [*args, *extra])],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as child:
            time.sleep(rng.uniform(0.3, 1.0) * whole)
            child.send_signal(signal.SIGKILL)
        now = (data / "__guard__/tokenized.verdict.json").read_bytes()
        assert now.endswith(b"}\n")
        if verb == "check":
            assert now == old or json.loads(now)["predicate"]["rules"]
        if (tmp_path / "ok").exists():
            assert pq.read_table(tmp_path / "ok/a.parquet").num_rows == 300
            assert (tmp_path / "ok/__guard__/manifest.json").exists()
            assert (tmp_path / "bad").exists()
        if (tmp_path / "bad").exists():
            assert pq.read_table(tmp_path / "bad/a.parquet").num_rows == 100
    shutil.rmtree(tmp_path / "ok", ignore_errors=True)
    shutil.rmtree(tmp_path / "bad", ignore_errors=True)
    assert command(*args).returncode == (1 if verb == "check" else 0)


# Faults that were found by trying to break it.


@pytest.mark.parametrize(("passed", "failed"), [("o", "o/bad"), ("o/good", "o")])
def test_outputs_in_one_another_are_refused(tmp_path, passed, failed):
    path = samples.write(tmp_path, [samples.prompt(i) for i in range(3)], "prompts")
    with pytest.raises(UsageError, match="lie in one another"):
        split(path, passed=tmp_path / passed, failed=tmp_path / failed, stage="prompts", ignore=IGNORED)
    assert not (tmp_path / "o").exists()


def test_a_link_as_output_is_refused(tmp_path):
    path = samples.write(tmp_path, [samples.prompt(i) for i in range(3)], "prompts")
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    with pytest.raises(UsageError, match="is a link"):
        split(path, passed=tmp_path / "link", stage="prompts", ignore=IGNORED)


def test_a_file_of_the_users_in_an_earlier_split_is_kept(tmp_path):
    path = samples.write(tmp_path, [samples.prompt(i) for i in range(3)], "prompts")
    split(path, passed=tmp_path / "ok", stage="prompts", ignore=IGNORED)
    (tmp_path / "ok/mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        split(path, passed=tmp_path / "ok", stage="prompts", ignore=IGNORED)


@pytest.mark.parametrize(
    "names", [["_a.jsonl"], ["README.jsonl"], ["manifest.json"], [".x", "y"], ["p/x", "q/x/a.jsonl"]]
)
def test_rows_never_go_where_they_are_not_seen(tmp_path, names):
    paths = []
    for at, name in enumerate(names):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(samples.prompt(10 * at + i)) + "\n" for i in range(3)))
        paths.append(path if name != "q/x/a.jsonl" else path.parent)
    done = split(paths, passed=tmp_path / "ok", stage="prompts", ignore=IGNORED, out=tmp_path / "guard")
    assert done.passed_rows == 3 * len(names)
    assert dg.check(tmp_path / "ok", stage="prompts", ignore=IGNORED).counts.rows == 3 * len(names)
