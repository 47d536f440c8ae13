"""`profile` from outside: its figures are those of plain Python over the rows."""

import csv
import io
import json
from collections import Counter

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.datasets import write_incident_prompts, write_incident_tokenized
from dflash_guard.cli import run
from samples import completion, prompt, tokens, write


@pytest.fixture
def profiled(capsys):
    """Profiles data with the command; returns the JSON object."""

    def profiled(data, *options):
        capsys.readouterr()
        assert run(["profile", str(data), "--format", "json", *options]) == 0
        return json.loads(capsys.readouterr().out)

    return profiled


def figures(values, rows):
    """What a profile says of a fact: as NumPy sees it."""
    if not values:
        return {"count": 0, "nulls": rows, **dict.fromkeys(("min", "mean", "median", "p90", "p99", "max", "sum"))}
    return {
        "count": len(values),
        "nulls": rows - len(values),
        "min": min(values),
        "mean": pytest.approx(np.mean(values)),
        "median": pytest.approx(np.median(values)),
        "p90": pytest.approx(np.percentile(values, 90)),
        "p99": pytest.approx(np.percentile(values, 99)),
        "max": max(values),
        "sum": pytest.approx(sum(values)),
    }


texts = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp", "Cf"]), min_size=1, max_size=40
)
rows_of_text = st.lists(
    st.tuples(texts, texts, st.sampled_from(["a", "b", "", None]), st.booleans()), min_size=1, max_size=25
)


@settings(max_examples=30)
@given(rows_of_text)
def test_figures_of_prompts_equal_numpys(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("rows")
    made = []
    for i, (asked, answer, source, system) in enumerate(rows):
        row = prompt(i, asked, response="")
        row["messages"] = [{"role": "system", "content": "Be brief."}] * system + row["messages"]
        row["messages"].append({"role": "assistant", "content": answer})
        row["source"] = source
        made.append(row)
    write(folder, made, "prompts")
    out = folder / "profile.json"
    assert run(["profile", str(folder), "--stage", "prompts", "-o", f"json:{out}"]) == 0
    found = json.loads(out.read_text())
    lengths = [len(asked) + 9 * system for asked, _, _, system in rows]
    assert found["facts"]["prompt_chars"] == figures(lengths, len(rows))
    assert found["facts"]["response_chars"] == figures([len(answer) for _, answer, _, _ in rows], len(rows))
    assert found["system_rows"] == sum(system for *_, system in rows)
    sources = Counter(source or "unknown" for _, _, source, _ in rows)
    assert {each["source"]: each["rows"] for each in found["sources"]} == sources
    for each in found["sources"]:
        of_it = [
            n for n, (_, _, source, _) in zip(lengths, rows, strict=True) if (source or "unknown") == each["source"]
        ]
        assert each["facts"]["prompt_chars"] == figures(of_it, len(of_it))
        assert each["share"] == pytest.approx(len(of_it) / len(rows))
    answers = Counter(answer.strip() for _, answer, _, _ in rows)
    top = [(each["rows"], each["chars"], each["text"]) for each in found["top_responses"]]
    assert sorted(n for n, *_ in top) == sorted(sorted(answers.values(), reverse=True)[:10])
    assert all(answers[text] == n and len(text) == chars for n, chars, text in top)
    for fact in ("prompt_chars", "response_chars"):
        assert sum(each["rows"] for each in found["histograms"][fact]) == len(rows)


def test_the_incident_is_reproduced_from_one_command(tmp_path, profiled):
    data = tmp_path / "raw.jsonl"
    write_incident_prompts(data, rows=20_000)
    found = profiled(data)
    assert (found["schema"], found["stage"], found["rows"], found["shards"]) == (
        "dflash-guard/profile/1",
        "prompts",
        20_000,
        1,
    )
    assert found["system_rows"] == round(20_000 * 113_786 / 913_786)
    assert [(each["source"], each["rows"], each["share"]) for each in found["sources"]] == [("unknown", 20_000, 1.0)]
    chars = found["facts"]["prompt_chars"]
    assert (round(chars["mean"]), chars["max"]) == (854, 212_884)
    assert chars["median"] == pytest.approx(300, abs=1)
    assert chars["p90"] == pytest.approx(1_948, rel=0.01)
    assert {found["facts"]["response_chars"][key] for key in ("min", "median", "max")} == {3}
    assert found["top_responses"] == [
        {"rows": 20_000, "share": 1.0, "chars": 3, "loss_tokens": None, "text": "OK.", "ids": []}
    ]
    assert found["roles"] == [
        {"roles": "human,gpt", "rows": 20_000 - found["system_rows"]},
        {"roles": "system,human,gpt", "rows": found["system_rows"]},
    ]


def test_token_figures_equal_a_query_over_the_shard_itself(tmp_path, profiled):
    data = tmp_path / "tokens.arrow"
    write_incident_tokenized(data, rows=3_000)
    found = profiled(data)
    import pyarrow as pa

    rows = pa.ipc.open_stream(data.read_bytes()).read_all()  # noqa: F841 - DuckDB finds it by name
    want = duckdb.sql(
        """
        SELECT count(*) AS n, avg(len(input_ids)), quantile_cont(len(input_ids), 0.9), max(len(input_ids)),
            avg(list_sum(loss_mask)), quantile_cont(list_sum(loss_mask), 0.5),
            avg(list_sum(loss_mask) / len(input_ids))
        FROM rows"""
    ).fetchall()[0]
    facts = found["facts"]
    got = (
        found["rows"],
        *(facts["tokens"][key] for key in ("mean", "p90", "max")),
        *(facts["loss_tokens"][key] for key in ("mean", "median")),
        facts["loss_fraction"]["mean"],
    )
    assert got == pytest.approx([float(each) for each in want])
    top = found["top_responses"][0]
    assert (top["rows"], top["loss_tokens"], top["ids"]) == (2_610, 6, [151667, 271, 151668, 271, 3925, 13])
    assert top["text"] is None
    assert found["thinking_rows"] == round(found["distribution"]["thinking_share"] * 3_000)


def test_completions_have_thinking_and_finish_reasons(tmp_path, profiled):
    rows = [
        completion(i, thinking=None if i < 3 else "I count.", finish="length" if i < 2 else "stop") for i in range(10)
    ]
    found = profiled(write(tmp_path, rows, "completions"))
    assert found["stage"] == "completions"
    assert found["thinking_rows"] == 7
    assert found["finish_reasons"] == [{"finish_reason": "stop", "rows": 8}, {"finish_reason": "length", "rows": 2}]
    assert found["facts"]["thinking_chars"]["max"] == 8


def test_each_shard_is_a_group(tmp_path, profiled):
    (tmp_path / "set").mkdir()
    for name, count in (("a", 3), ("b", 5)):
        write(tmp_path / "set", [prompt(f"{name}{i}") for i in range(count)], "prompts", name)
    found = profiled(tmp_path / "set")
    assert [(each["shard"], each["rows"]) for each in found["by_shard"]] == [("a.jsonl", 3), ("b.jsonl", 5)]


def test_one_row(tmp_path, profiled):
    found = profiled(write(tmp_path, [prompt(0, "Four", response="OK.")], "prompts"))
    chars = found["facts"]["prompt_chars"]
    assert {chars[key] for key in ("min", "mean", "median", "p90", "p99", "max")} == {4}
    assert found["histograms"]["prompt_chars"] == [{"from": 2, "to": 5, "rows": 1}]


def test_rows_none_of_which_can_be_read_are_counted_and_nothing_else(tmp_path, profiled):
    data = tmp_path / "broken.jsonl"
    data.write_text('{"broken\n{"messages": 3}\nnothing\n')
    found = profiled(data, "--stage", "prompts")
    assert found["rows"] == 3
    assert found["facts"]["prompt_chars"]["count"] == 0
    assert found["facts"]["prompt_chars"]["max"] is None
    assert found["top_responses"] == []
    assert [(each["source"], each["rows"]) for each in found["sources"]] == [("unknown", 1)]


def test_nothing_to_profile_is_exit_4(tmp_path, capsys):
    (tmp_path / "empty.jsonl").write_text("\n")
    assert run(["profile", str(tmp_path / "empty.jsonl")]) == 4
    assert run(["profile", str(tmp_path / "nowhere")]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_other_formats_say_the_same(tmp_path, capsys):
    data = write(tmp_path, [prompt(i, "x" * (i + 1), response="OK.") for i in range(20)], "prompts")
    files = {name: tmp_path / f"profile.{name}" for name in ("csv", "markdown", "html", "json")}
    assert (
        run(["profile", str(data), *(word for name, path in files.items() for word in ("-o", f"{name}:{path}"))]) == 0
    )
    table = capsys.readouterr().out
    assert "20 rows · 1 shard · 1 source" in table
    assert "OK." in table
    cells = list(csv.DictReader(io.StringIO(files["csv"].read_text())))
    whole = next(each for each in cells if each["level"] == "data set" and each["fact"] == "prompt_chars")
    assert (whole["mean"], whole["median"], whole["max"]) == ("10.5", "10.5", "20")
    for name in ("markdown", "html"):
        assert "10.5" in files[name].read_text()


def test_a_tokenizer_shows_ids_as_text(tmp_path, capsys):
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {"[UNK]": 0, "never": 1, "mind": 2}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    (tmp_path / "model").mkdir()
    tokenizer.save(str(tmp_path / "model" / "tokenizer.json"))
    rows = [tokens(i, 40) | {"id": str(i)} for i in range(2)]
    for row in rows:
        row["input_ids"][-5:-1] = [1, 2, 1, 2]
    data = write(tmp_path, rows, "tokenized")
    assert run(["profile", str(data), "--tokenizer", str(tmp_path / "model"), "--format", "json"]) == 0
    top = json.loads(capsys.readouterr().out)["top_responses"][0]
    assert top["text"].endswith("never mind never mind⟨151645⟩")
    for wrong, code in ((tmp_path / "none", 2), (tmp_path, 2), (data, 2)):
        assert run(["profile", str(data), "--tokenizer", str(wrong)]) == code
        assert "Traceback" not in capsys.readouterr().err


def test_redacted_profiles_hold_no_sample_text(tmp_path, capsys):
    data = write(tmp_path, [prompt(i, response="Secret words.") for i in range(5)], "prompts")
    for name in ("table", "json", "csv", "markdown", "html"):
        assert run(["profile", str(data), "--format", name, "--redact"]) == 0
        assert "Secret" not in capsys.readouterr().out
