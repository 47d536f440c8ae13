"""`sql`, `autopsy`, `report`, `diff` and `contract` from outside: looked at as a person at a terminal would."""

import json
import os
import shutil

import pyarrow.parquet as pq
import pytest
import yaml

from dflash_guard.cli import run
from dflash_guard.profile.gallery import GALLERY
from samples import completion, prompt, tokens, write

HOSTILE = "<script>alert(1)</script>\x1b[31m\n::error::pwned\n=1+1|x</td>" + "y" * 200_000


@pytest.fixture
def said(capsys):
    """Runs a command line; returns exit code, stdout and stderr."""

    def said(*words):
        capsys.readouterr()
        code = run([str(word) for word in words])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    return said


@pytest.fixture
def collapsed(tmp_path):
    """100 completions, 60 of which have one answer."""
    return write(
        tmp_path, [completion(i, "The same for all of them." if i < 60 else None) for i in range(100)], "completions"
    )


# --- sql


def test_views_hold_rows_facts_failures_and_the_profile(collapsed, said):
    for query, want in (
        ("SELECT count(*) AS n, count(DISTINCT id) AS m FROM samples", {"n": 100, "m": 100}),
        ("SELECT max(answer_chars) AS n FROM facts WHERE row < 60", {"n": 25}),
        ("SELECT rule, count(*) AS n FROM failures GROUP BY rule", {"rule": "response-collapse", "n": 1}),
        ("SELECT \"max\" AS n FROM profile WHERE level = 'data set' AND fact = 'user_turns'", {"n": 1.0}),
        (
            "SELECT shard, row, line, source FROM samples WHERE id = '7'",
            {"shard": "shard.jsonl", "row": 7, "line": 8, "source": "sums"},
        ),
    ):
        code, out, err = said("sql", collapsed, query, "--format", "json")
        assert code == 0, err
        assert json.loads(out) == want


def test_data_sets_are_joined_by_alias(tmp_path, said):
    for name, count in (("p", 5), ("c", 3)):
        (tmp_path / name).mkdir()
        write(tmp_path / name, [prompt(i) for i in range(count)], "prompts")
    query = "SELECT count(*) AS n FROM p.facts ANTI JOIN c.facts USING (id)"
    code, out, _ = said("sql", f"p={tmp_path / 'p'}", f"c={tmp_path / 'c'}", query, "--format", "json")
    assert (code, json.loads(out)) == (0, {"n": 2})


@pytest.mark.parametrize(
    "query",
    [
        "COPY (SELECT 1) TO '{0}/stolen.csv'",
        "SELECT * FROM read_text('{0}/secret.txt')",
        "SELECT * FROM '{0}/secret.txt'",
        "ATTACH '{0}/new.db'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
    ],
)
def test_a_query_reaches_nothing_but_its_data(collapsed, tmp_path, said, query):
    (tmp_path / "secret.txt").write_text("secret")
    before = {path.name for path in tmp_path.iterdir()}
    code, out, err = said("sql", collapsed, query.format(tmp_path))
    assert code == 2
    assert "secret\n" not in out
    assert "hint:" in err.lower()
    assert {path.name for path in tmp_path.iterdir()} - before <= {"__guard__"}


def test_files_are_reached_where_that_is_allowed(collapsed, tmp_path, said):
    target = tmp_path / "out.csv"
    assert said("sql", collapsed, f"COPY (SELECT 1 AS n) TO '{target}'", "--allow-files")[0] == 0
    assert target.read_text().split() == ["n", "1"]


def test_results_go_to_files(collapsed, tmp_path, said):
    target = tmp_path / "rows.parquet"
    assert said("sql", collapsed, "SELECT row FROM facts ORDER BY row", "--format", "parquet", "-o", target)[0] == 0
    assert pq.read_table(target)["row"].to_pylist() == list(range(100))


def test_a_cell_breaks_out_of_no_format(tmp_path, said):
    data = write(tmp_path, [prompt(0, HOSTILE)], "prompts")
    query = "SELECT messages ->> '$[0].content' AS c FROM samples"
    _, table, _ = said("sql", data, query)
    assert "\x1b" not in table
    assert not any(line.startswith("::") for line in table.splitlines())
    assert len(table) < 2_000
    _, out, _ = said("sql", data, "SELECT '=1+1' AS c", "--format", "csv")
    assert out == "c\n'=1+1\n"
    _, out, _ = said("sql", data, query, "--format", "json")
    assert json.loads(out)["c"] == HOSTILE


@pytest.mark.parametrize("name", sorted(GALLERY))
def test_queries_of_the_gallery_run(name, tmp_path, said):
    stage = next((s for s in ("tokenized", "completions") if f"({s})" in GALLERY[name]), "prompts")
    make = {"tokenized": lambda i: tokens(i, 70 + i), "completions": completion, "prompts": prompt}[stage]
    (tmp_path / "set").mkdir()
    for shard in ("a", "b"):
        write(tmp_path / "set", [make(i) for i in range(6)], stage, shard)
    code, out, err = said("sql", tmp_path / "set", "-f", name, "--stage", stage, "--format", "json")
    assert code == 0, err
    assert all(json.loads(line) for line in out.splitlines())
    assert out


def test_wrong_sql_is_one_sentence(collapsed, said):
    for words in (["SELEC 1"], ["SELECT nope FROM facts"], ["-f", "no-such-file"], []):
        if words:
            code, _, err = said("sql", collapsed, *words)
            assert code == 2
            assert err.startswith("error: ")
    assert said("sql")[0] == 2
    assert said("sql", "SELECT count(*) FROM facts")[0] == 2


# --- autopsy


def test_the_dominant_failure_comes_first_and_is_decoded(collapsed, said):
    code, out, _ = said("autopsy", collapsed)
    assert code == 0
    lines = [line for line in out.splitlines() if line]
    assert lines[1] == "60.0 % of the rows share one response of 25 characters"
    assert lines[2] == "  │ The same for all of them."
    assert not list(collapsed.parent.rglob("*.verdict.json"))


def test_the_mask_is_painted_over_the_ids(tmp_path, said):
    data = write(tmp_path, [tokens(i, 10 if i == 3 else 70 + i) for i in range(8)], "tokenized")
    _, out, _ = said("autopsy", data, "--rows", 1)
    painted = next(line for line in out.splitlines() if "⟦" in line)
    assert painted.strip().startswith("151644, 872, 198")
    assert "⟦151667, 198, 5000, 198, 151668, 271, " in painted
    assert painted.rstrip().endswith("151645⟧")


def test_a_good_set_has_nothing_to_show(tmp_path, said):
    code, out, _ = said("autopsy", write(tmp_path, [completion(i) for i in range(20)], "completions"))
    assert code == 0
    assert "no rule is broken" in out


# --- report


def test_the_page_needs_nothing_else_and_no_text_breaks_it(tmp_path, said):
    rows = [completion(i, HOSTILE if i < 10 else None, source="<b>x</b>" if i % 2 else "sums") for i in range(20)]
    page = tmp_path / "page.html"
    assert said("report", write(tmp_path, rows, "completions"), "-o", page)[0] == 0
    text = page.read_text()
    assert "<script" not in text
    assert "<b>x</b>" not in text
    assert "\x1b" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert not [w for w in ("http://", "https://") if w in text.replace("http://www.w3.org/", "")]
    assert len(text) < 400_000
    assert said("report", write(tmp_path, rows, "completions"), "-o", page, "--redact")[0] == 0
    assert "alert(1)" not in page.read_text()


@pytest.mark.skipif(not shutil.which("chromedriver"), reason="no Chromium with its driver is installed")
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_the_page_opens_in_a_browser_without_a_request_or_an_error(collapsed, tmp_path, said, request):
    from selenium import webdriver

    page = tmp_path / "page.html"
    assert said("report", collapsed, "-o", page)[0] == 0
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync")
    for flag in (
        *flags,
        "--disable-background-networking",
        "--disable-component-update",
        f"--user-data-dir={tmp_path}/user",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    browser = webdriver.Chrome(options=options, service=service)
    try:
        for width, scheme in ((1200, "light"), (420, "dark")):
            browser.set_window_size(width, 1400)
            media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
            browser.get(page.as_uri())
            shots = request.config.rootpath / "test-output"
            shots.mkdir(exist_ok=True)
            browser.save_screenshot(str(shots / f"report-{scheme}.png"))
            wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert browser.execute_script(wide) <= 0
        assert browser.find_element("css selector", "h1").text == "FAIL · completions"
        assert browser.find_elements("css selector", "figure svg")
        assert [each for each in browser.get_log("browser") if each["level"] in {"SEVERE", "WARNING"}] == []
        events = [json.loads(each["message"])["message"] for each in browser.get_log("performance")]
        asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        assert {url for url in asked if url.split(":")[0] not in {"chrome", "data"}} == {page.as_uri()}
    finally:
        browser.quit()


def test_data_docs_are_great_expectations_own(collapsed, tmp_path, said):
    assert said("report", collapsed, "-o", tmp_path / "page.html", "--data-docs", tmp_path / "docs")[0] == 0
    assert "Great Expectations" in (tmp_path / "docs" / "index.html").read_text()


# --- diff and contract


def test_two_data_sets_side_by_side(collapsed, tmp_path, said):
    (tmp_path / "new").mkdir()
    better = write(tmp_path / "new", [completion(i) for i in range(50)], "completions")
    code, out, _ = said("diff", collapsed, better, "--format", "json")
    assert code == 0
    changes = {each["name"]: (each["first"], each["second"]) for each in json.loads(out)["changes"]}
    assert changes["rows"] == (100, 50)
    assert changes["rule response-collapse"][0] == "failed, observed 0.6"
    assert changes["rule response-collapse"][1].startswith("passed")
    assert said("diff", collapsed, collapsed)[1] == "Nothing differs.\n"
    assert said("diff", collapsed, tmp_path / "nowhere")[0] == 2


def test_profiles_and_reports_are_compared_as_files(collapsed, tmp_path, said):
    for name, words in (("p", ["profile"]), ("r", ["check", "--stage", "completions"])):
        path = tmp_path / f"{name}.json"
        said(words[0], collapsed, *words[1:], "-o", f"json:{path}")
        assert said("diff", path, path)[1] == "Nothing differs.\n"
    (tmp_path / "x.json").write_text('{"schema": "other"}')
    assert said("diff", tmp_path / "x.json", tmp_path / "p.json")[0] == 2


def test_contracts_are_shown_compared_and_exported(tmp_path, said):
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "extends: tokenized\nname: mine\nstage: tokenized\nrules: {few-loss-tokens: {min: 16}}\nmix: {math: [0.1, 0.5]}\n"
    )
    _, out, _ = said("contract", "show", mine)
    assert yaml.safe_load(out)["rules"]["few-loss-tokens"]["min"] == 16
    code, out, _ = said("contract", "diff", "tokenized", mine)
    assert code == 1
    assert any(line.split() == ["rules.few-loss-tokens.min", "32", "16"] for line in out.splitlines())
    assert said("contract", "diff", mine, mine)[:2] == (0, "They ask the same.\n")
    suite = json.loads(said("contract", "export", mine, "--format", "gx")[1])
    bounds = {e["meta"]["rule"]: e["kwargs"] for e in suite["expectations"]}
    assert (bounds["source-drift"]["min_value"], bounds["source-drift"]["max_value"]) == (0.1, 0.5)
    assert bounds["loss-collapse"]["max_value"] == 0.2
    odcs = yaml.safe_load(said("contract", "export", mine)[1])
    assert (odcs["apiVersion"], odcs["kind"]) == ("v3.1.0", "DataContract")
    assert {"few-loss-tokens", "source-drift"} <= {each["name"] for each in odcs["schema"][0]["quality"]}


@pytest.mark.skipif(not os.environ.get("DATACONTRACT"), reason="DATACONTRACT names no datacontract-cli")
def test_the_odcs_export_passes_the_real_lint(tmp_path, said):
    import subprocess

    for stage in ("prompts", "completions", "tokenized"):
        path = tmp_path / f"{stage}.odcs.yaml"
        assert said("contract", "export", "--stage", stage, "-o", path)[0] == 0
        subprocess.run([os.environ["DATACONTRACT"], "lint", str(path)], check=True, capture_output=True)
